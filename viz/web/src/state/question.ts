/** Questions that the address asks the server: put when the address changes, and again when there is news. */

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
  put: () => void;
}

const standing: Standing[] = [];

/**
 * A question that stands while the page lasts.
 *
 * @param keyOf what is asked, as a text that differs where the question does; null while nobody wants to know.
 *   Signals that it reads decide when it is asked again.
 * @param put asks the server.
 */
export function question<T>(
  keyOf: () => string | null,
  put: (signal: AbortSignal) => Promise<T>,
  { live = false, keep = false }: Options = {},
): Resource<T> {
  const resource = new Resource<T>();
  let last: string | null = null;
  const ask = (): void => void resource.load(put);
  effect(() => {
    const key = keyOf();
    // What was answered stays for who comes back to it; what lives is asked anew.
    if (key === null || (key === last && !live)) return;
    const isOther = key !== last;
    last = key;
    untracked(() => {
      if (isOther && !keep) resource.clear();
      ask();
    });
  });
  if (live) standing.push({ isOpen: () => untracked(keyOf) !== null, isBusy: () => resource.busy.peek(), put: ask });
  return resource;
}

/** Ask all open questions again whose answers change, unless an answer to one is on its way. Says whether it did. */
export function askAgain(): boolean {
  const open = standing.filter((one) => one.isOpen());
  // Asking again would abandon answers that are on their way.
  if (open.some((one) => one.isBusy())) return false;
  for (const one of open) one.put();
  return true;
}
