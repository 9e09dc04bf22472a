/** Steps that charts show: all, some, or the newest ones, which they follow. */

import type { Range } from '../../../shared/address/model/ranges';
import type { View } from '../../../shared/address/model/view';

export type Window = Pick<View, 'zoom' | 'newest'>;

export const ALL: Window = { zoom: null, newest: 0 };

/** Window on a range of the `end` steps of a run; it follows a run that has not ended where it includes the last step. */
export function windowOn([first, last]: Range, end: number, goesOn: boolean): Window {
  if (first <= 0 && last >= end - 1) return ALL;
  if (last < end - 1) return { zoom: [Math.max(0, first), last], newest: 0 };
  const start = Math.max(0, Math.min(first, end - 1));
  return goesOn ? { zoom: null, newest: end - start } : { zoom: [start, end - 1], newest: 0 };
}

/** Window with as many steps as before, which follows the newest ones. */
export function windowOnNow(shown: Range | null): Window {
  return shown === null ? ALL : { zoom: null, newest: shown[1] - shown[0] + 1 };
}

/** First and last step that a window shows of a run with `end` steps; null for all. */
export function shownOf({ zoom, newest }: Window, end: number): Range | null {
  return newest === 0 || end === 0 ? zoom : [Math.max(0, end - newest), end - 1];
}

/** Range moved within bounds, of the same length. */
export function moved([first, last]: Range, by: number, [least, most]: Range): Range {
  const to = Math.max(least, Math.min(first + by, most - (last - first)));
  return [to, to + last - first];
}

/** A share of the length of a range, at least one. */
export const shareOf = ([first, last]: Range, share: number): number => Math.sign(share) * Math.max(1, Math.round(Math.abs(share) * (last - first + 1)));
