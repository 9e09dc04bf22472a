/** Which steps charts show: all, some, or the newest, which they then follow. */

import type { Range } from '../../../shared/address/model/ranges';
import type { View } from '../../../shared/address/model/view';

export type Window = Pick<View, 'zoom' | 'newest'>;

export const ALL: Window = { zoom: null, newest: 0 };

/** The window on a range of steps of a run with `end` of them. Who sees the last step of a run that goes on follows it. */
export function windowOn([first, last]: Range, end: number, goesOn: boolean): Window {
  if (first <= 0 && last >= end - 1) return ALL;
  if (last < end - 1) return { zoom: [Math.max(0, first), last], newest: 0 };
  const start = Math.max(0, Math.min(first, end - 1));
  return goesOn ? { zoom: null, newest: end - start } : { zoom: [start, end - 1], newest: 0 };
}

/** As many steps as before, but the newest ones. */
export function windowOnNow(shown: Range | null): Window {
  return shown === null ? ALL : { zoom: null, newest: shown[1] - shown[0] + 1 };
}

/** First and last step shown of a run with `end` steps; null for all. */
export function shownOf({ zoom, newest }: Window, end: number): Range | null {
  return newest === 0 || end === 0 ? zoom : [Math.max(0, end - newest), end - 1];
}

/** As long as before, elsewhere, but within bounds. */
export function moved([first, last]: Range, by: number, [least, most]: Range): Range {
  const to = Math.max(least, Math.min(first + by, most - (last - first)));
  return [to, to + last - first];
}

/** How far a share of a range is: one at least. */
export const shareOf = ([first, last]: Range, share: number): number => Math.sign(share) * Math.max(1, Math.round(Math.abs(share) * (last - first + 1)));
