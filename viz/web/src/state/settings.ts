/** What a user sets once, for all runs: kept by the browser. */

import { signal } from '@preact/signals';

const KEY = 'chimbuko-letters';

/** Whether single letters and signs act as keys; who dictates text switches them off (WCAG 2.1.4). */
export const lettersAct = signal(localStorage.getItem(KEY) !== 'off');

export function setLetters(act: boolean): void {
  lettersAct.value = act;
  localStorage.setItem(KEY, act ? 'on' : 'off');
}
