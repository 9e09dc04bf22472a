/** Long questions: like `question`, with progress and an end before the end. */

import { effect, signal, untracked } from '@preact/signals';
import type { LongQuestion, Progress } from '../api/jobs';
import { Resource } from './resource';
import { ask } from './session';

export type { LongQuestion, Progress };

/** A long question, put by `start`; its answer is its `value`. */
export class Job<T> extends Resource<T> {
  /** How far it is; null where none is on its way, or nothing has been heard of it yet. */
  readonly progress = signal<Progress | null>(null);
  /** Whether the user ended it. */
  readonly cancelled = signal(false);
  #asked: LongQuestion | null = null;

  start(asked: LongQuestion): void {
    this.#asked = asked;
    this.progress.value = null;
    this.cancelled.value = false;
    void this.load((signal) => ask<T>(asked, signal, (progress) => (this.progress.value = progress)));
  }

  /** Ask the same once more. */
  again(): void {
    if (this.#asked !== null) this.start(this.#asked);
  }

  /** End it for the user, who may ask again. */
  cancel(): void {
    this.clear();
    this.cancelled.value = true;
  }

  override clear(): void {
    super.clear();
    this.progress.value = null;
    this.cancelled.value = false;
  }
}

/**
 * A long question that stands while the page lasts.
 *
 * @param keyOf what is asked, as a text that differs where the question does; null while nobody wants to know,
 *   which also ends one that is on its way. Signals that it reads decide when it is asked again.
 * @param wanted what to ask.
 */
export function job<T>(keyOf: () => string | null, wanted: () => LongQuestion): Job<T> {
  const asked = new Job<T>();
  let last: string | null = null;
  effect(() => {
    const key = keyOf();
    untracked(() => {
      // What was answered stays for who comes back to it.
      if (key === last || (key === null && asked.value.value !== null)) return;
      last = key;
      asked.clear();
      if (key !== null) asked.start(wanted());
    });
  });
  return asked;
}
