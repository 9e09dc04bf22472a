/** When a page that was opened is shown: once what it asks first is answered, so that nothing moves under the reader. */

import { effect, signal, untracked } from '@preact/signals';
import { awaitsFirst } from './question';

/** Longest time that a page which has its answer waits for the others: a slow one must not keep these from the reader. */
const LONGEST_MS = 1000;
/** Longest time that a page waits for its answer. */
const LONGEST_UNANSWERED_MS = 4000;

/** Whether the page that is open is still laid out without being shown. */
export const isSettling = signal(true);
/** Whether the page that is open has the answer that it opens with. */
export const isAnswered = signal(false);

/**
 * Hide each page from when it is opened until its first answers have been laid out.
 *
 * @param pageOf name of the page that is open; null until its code is loaded.
 */
export function settlePages(pageOf: () => string | null): void {
  let opened: string | null = null;
  let limits: ReturnType<typeof setTimeout>[] = [];
  let frame = 0;
  const isLate = signal(false);
  const clear = (): void => limits.forEach(clearTimeout);
  const show = (): void => {
    clear();
    isSettling.value = false;
  };
  effect(() => {
    const [page, waits] = [pageOf(), awaitsFirst.value && !(isLate.value && isAnswered.value)];
    cancelAnimationFrame(frame);
    if (page === null) return;
    untracked(() => {
      if (page !== opened) {
        const isFirst = opened === null;
        opened = page;
        clear();
        isSettling.value = isFirst || waits;
        isLate.value = false;
        limits = [setTimeout(() => (isLate.value = true), LONGEST_MS), setTimeout(show, LONGEST_UNANSWERED_MS)];
      }
      // Charts measure their size in one frame, which may raise further questions, and paint in the next.
      if (isSettling.value && !waits) frame = requestAnimationFrame(() => (frame = requestAnimationFrame(show)));
    });
  });
}
