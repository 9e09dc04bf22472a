/** What a user sets once, for all runs: kept by the browser. */

import { signal } from '@preact/signals';

const LETTERS = 'chimbuko-letters';
const CLOCK = 'chimbuko-clock';

/** Whether single letters and signs act as keys; who dictates text switches them off (WCAG 2.1.4). */
export const lettersAct = signal(localStorage.getItem(LETTERS) !== 'off');

export function setLetters(act: boolean): void {
  lettersAct.value = act;
  localStorage.setItem(LETTERS, act ? 'on' : 'off');
}

/** Whether times are shown as a clock on the wall did, not since the run's start. */
export const wallTimes = signal(localStorage.getItem(CLOCK) === 'wall');

export function setWallTimes(wall: boolean): void {
  wallTimes.value = wall;
  localStorage.setItem(CLOCK, wall ? 'wall' : 'run');
}
