/** When a page that was opened is shown: once what it asks first is answered, so that nothing moves under the reader. */

import { effect, signal, untracked } from '@preact/signals';
import { awaitsFirst } from './question';

/** Longest time that a page waits for its first answers: a slow one must not keep the others from the reader. */
const LONGEST_MS = 1000;

/** Whether the page that is open is still laid out without being shown. */
export const isSettling = signal(true);

/**
 * Hide each page from when it is opened until its first answers have been laid out.
 *
 * @param pageOf name of the page that is open; null until its code is loaded.
 */
export function settlePages(pageOf: () => string | null): void {
  let opened: string | null = null;
  let limit: ReturnType<typeof setTimeout> | undefined;
  let frame = 0;
  const show = (): void => {
    clearTimeout(limit);
    isSettling.value = false;
  };
  effect(() => {
    const [page, waits] = [pageOf(), awaitsFirst.value];
    cancelAnimationFrame(frame);
    if (page === null) return;
    untracked(() => {
      if (page !== opened) {
        const isFirst = opened === null;
        opened = page;
        clearTimeout(limit);
        isSettling.value = isFirst || waits;
        limit = setTimeout(show, LONGEST_MS);
      }
      // Charts measure their size in one frame, which may raise further questions, and paint in the next.
      if (isSettling.value && !waits) frame = requestAnimationFrame(() => (frame = requestAnimationFrame(show)));
    });
  });
}
