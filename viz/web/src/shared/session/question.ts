/**
 * Questions that the address asks the server: put when the address changes, and again when there is news.
 *
 * Ours rather than TanStack's query core: what that adds, a cache and retries, no page needs (answers are
 * cached by HTTP, and the next news asks again), and the rest between asks, which keeps a hundred open pages
 * from slowing the run's server, would still be ours.
 */

import { effect, untracked } from '@preact/signals';
import { Resource } from './resource';

interface Options {
  /** Whether the answer changes while the run goes on. */
  live?: boolean;
  /** Whether an answer to another question may stay until the new one is here. */
  keep?: boolean;
}

interface Standing {
  isOpen: () => boolean;
  isBusy: () => boolean;
  put: () => Promise<void>;
}

/** After asking again a page rests this many times as long as the answers took: a hundred pages of one server ask less often. */
const REST = 10;
/** ... but no longer: one answer that did not come in time is no reason to show old lists for minutes. */
const LONGEST_REST_MS = 20_000;

const standing: Standing[] = [];
let restsUntil_ms = 0;

/**
 * A question that stands while the page lasts.
 *
 * @param keyOf what is asked, as a text that differs where the question does; null while nobody wants to know.
 *   Signals that it reads decide when it is asked again.
 * @param put asks the server.
 */
export function question<T>(keyOf: () => string | null, put: (signal: AbortSignal) => Promise<T>, { live = false, keep = false }: Options = {}): Resource<T> {
  const resource = new Resource<T>();
  let last: string | null = null;
  const ask = (): Promise<void> => resource.load(put);
  effect(() => {
    const key = keyOf();
    // What was answered stays for who comes back to it; what lives is asked anew.
    if (key === null || (key === last && !live)) return;
    const isOther = key !== last;
    last = key;
    untracked(() => {
      if (isOther && !keep) resource.clear();
      void ask();
    });
  });
  if (live) standing.push({ isOpen: () => untracked(keyOf) !== null, isBusy: () => resource.busy.peek(), put: ask });
  return resource;
}

/**
 * Ask all open questions again whose answers change, unless an answer to one is on its way. Says whether it did.
 *
 * @param isUrgent nobody shall rest or wait now: it is the last chance, or what a user wants. Answers that are on
 *   their way are abandoned, as they may know nothing of it yet.
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
