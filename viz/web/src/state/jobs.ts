/** Long questions that the address asks: like `question`, with progress and an end before the end. */

import { effect, signal, untracked } from '@preact/signals';
import type { LongQuestion, Progress } from '../net/jobs';
import { Resource } from './resource';

export type { LongQuestion, Progress };

/** A long question, put by `start`; its answer is its `value`. */
export class Job<T> extends Resource<T> {
  /** How far it is; null where none is on its way, or nothing has been heard of it yet. */
  readonly progress = signal<Progress | null>(null);
  /** Whether the user ended it; `again` asks once more. */
  readonly cancelled = signal(false);
  #asked: LongQuestion | null = null;

  start(asked: LongQuestion): void {
    this.#asked = asked;
    this.cancelled.value = false;
  }

  again(): void {
    if (this.#asked !== null) this.start(this.#asked);
  }

  cancel(): void {
    this.clear();
    this.cancelled.value = true;
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
      if (key === null && asked.busy.value) {
        asked.clear();
        last = null;
      }
      if (key === null || key === last) return;
      last = key;
      asked.clear();
      asked.start(wanted());
    });
  });
  return asked;
}
