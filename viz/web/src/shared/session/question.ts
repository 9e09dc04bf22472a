/**
 * Questions to the server that follow from the address: asked when the address changes, and again when there is news.
 *
 * This module replaces TanStack's query core: no page needs the cache and retries that it adds (answers are
 * cached by HTTP, and the next news asks again), and the pauses between requests, which keep a hundred open pages
 * from slowing down the run's server, would still have to be written.
 */

import { computed, effect, signal, untracked } from '@preact/signals';
import { Resource } from './resource';

interface Options {
  /** Whether the answer changes during the run. */
  live?: boolean;
  /** Whether the answer to the previous question stays until the new one has arrived. */
  keep?: boolean;
}

interface Standing {
  isOpen: () => boolean;
  isBusy: () => boolean;
  put: () => Promise<void>;
}

/** Pause of a page after asking again, as a multiple of the time that the answers took: so a hundred pages of one server ask less often. */
const REST = 10;
/** Longest pause: a single late answer must not leave old lists for minutes. */
const LONGEST_REST_MS = 20_000;

const standing: Standing[] = [];
/** Tells of every question whether it is open without an answer or an error. */
const unanswered = signal<readonly (() => boolean)[]>([]);

/** Whether an open question has had no answer yet. */
export const awaitsFirst = computed(() => unanswered.value.some((isUnanswered) => isUnanswered()));

let restsUntil_ms = 0;

/**
 * Register a question for the lifetime of the page.
 *
 * @param keyOf key of the question, which differs where the question does; null while nobody needs the answer.
 *   The question is asked again when signals that it reads change.
 * @param put asks the server.
 */
export function question<T>(keyOf: () => string | null, put: (signal: AbortSignal) => Promise<T>, { live = false, keep = false }: Options = {}): Resource<T> {
  const resource = new Resource<T>();
  let last: string | null = null;
  const ask = (): Promise<void> => resource.load(put);
  effect(() => {
    const key = keyOf();
    // An answer stays, for a user who comes back to it; only live questions are asked again.
    if (key === null || (key === last && !live)) return;
    const isOther = key !== last;
    last = key;
    untracked(() => {
      if (isOther && !keep) resource.clear();
      void ask();
    });
  });
  untracked(() => {
    unanswered.value = [...unanswered.value, () => keyOf() !== null && resource.isUnanswered.value];
  });
  if (live) standing.push({ isOpen: () => untracked(keyOf) !== null, isBusy: () => resource.busy.peek(), put: ask });
  return resource;
}

/**
 * Ask all open live questions again, unless an answer to one is on its way. Return whether they were asked.
 *
 * @param isUrgent whether to ask without a pause, because it is the last chance or the user wants it. Answers on
 *   their way are abandoned, because they may be out of date.
 */
export function askAgain(isUrgent = false): boolean {
  const open = standing.filter((one) => one.isOpen());
  const began_ms = performance.now();
  if (!isUrgent && (open.some((one) => one.isBusy()) || began_ms < restsUntil_ms)) return false;
  void Promise.all(open.map((one) => one.put())).then(() => {
    const now_ms = performance.now();
    restsUntil_ms = now_ms + Math.min(LONGEST_REST_MS, REST * (now_ms - began_ms));
  });
  return true;
}
