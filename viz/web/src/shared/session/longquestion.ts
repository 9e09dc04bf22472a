/** Long questions: like `question`, with progress and cancellation. */

import { effect, signal, untracked } from '@preact/signals';
import type { LongQuestion, Progress } from '../api/jobs';
import { Resource } from './resource';
import { ask } from './session';

export type { LongQuestion, Progress };

/** A long question, asked by `start`; its answer is its `value`. */
export class Job<T> extends Resource<T> {
  /** Its progress; null where it has not been asked, or no progress is known yet. */
  readonly progress = signal<Progress | null>(null);
  /** Whether the user has cancelled it. */
  readonly cancelled = signal(false);
  #asked: LongQuestion | null = null;

  start(asked: LongQuestion): void {
    this.#asked = asked;
    this.progress.value = null;
    this.cancelled.value = false;
    void this.load((signal) => ask<T>(asked, signal, (progress) => (this.progress.value = progress)));
  }

  /** Ask the same question again. */
  again(): void {
    if (this.#asked !== null) this.start(this.#asked);
  }

  /** Cancel the question for the user, who may ask it again. */
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
 * Register a long question for the lifetime of the page.
 *
 * @param keyOf key of the question, which differs where the question does; null while nobody needs the answer,
 *   which also cancels a question on its way. The question is asked again when signals that it reads change the key.
 * @param wanted the question.
 */
export function job<T>(keyOf: () => string | null, wanted: () => LongQuestion): Job<T> {
  const asked = new Job<T>();
  let last: string | null = null;
  effect(() => {
    const key = keyOf();
    untracked(() => {
      // An answer stays, for a user who comes back to it.
      if (key === last || (key === null && asked.value.value !== null)) return;
      last = key;
      asked.clear();
      if (key !== null) asked.start(wanted());
    });
  });
  return asked;
}
