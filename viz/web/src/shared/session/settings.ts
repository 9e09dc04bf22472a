/** Settings of a user for all runs, kept by the browser. */

import { keep, readKept } from './kept';
import { signal } from '@preact/signals';

const LETTERS = 'chimbuko-letters';
const CLOCK = 'chimbuko-clock';
const NOTIFIES = 'chimbuko-notifies';

/** Whether single letters and signs act as keys; users of speech input switch them off (WCAG 2.1.4). */
export const lettersAct = signal(readKept(LETTERS) !== 'off');

export function setLetters(act: boolean): void {
  lettersAct.value = act;
  keep(LETTERS, act ? 'on' : 'off');
}

/** Whether times are shown as time of day instead of since the run's start. */
export const wallTimes = signal(readKept(CLOCK) === 'wall');

export function setWallTimes(wall: boolean): void {
  wallTimes.value = wall;
  keep(CLOCK, wall ? 'wall' : 'run');
}

/** Whether the browser notifies of new incidents; it does not until the user asks for it. */
export const notifies = signal(readKept(NOTIFIES) === 'on');

export function setNotifies(on: boolean): void {
  notifies.value = on;
  keep(NOTIFIES, on ? 'on' : 'off');
}
