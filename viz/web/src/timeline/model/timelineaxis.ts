/** Axis of a timeline: linear, or with times folded for which nothing was kept. */

import type { Interval } from './spans';
import type { Range } from '../../shared/address/model/ranges';

/** Conversion between times and positions, which are µs without the folded times. */
export interface TimeAxis {
  isFolded: boolean;
  positionOf: (time: number) => number;
  timeAt: (position: number) => number;
}

const same = (value: number): number => value;

export const PLAIN_AXIS: TimeAxis = { isFolded: false, positionOf: same, timeAt: same };

/** Greatest length of a folded gap, as a share of all that was kept. */
const FOLD_SHARE = 0.02;

/** Unite intervals that overlap, and sort them. */
export function united(intervals: readonly Interval[]): Interval[] {
  const made: Interval[] = [];
  for (const [first, last] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const before = made[made.length - 1];
    if (before !== undefined && first <= before[1]) before[1] = Math.max(before[1], last);
    else made.push([first, last]);
  }
  return made;
}

/** Gaps between sorted intervals without overlaps, within a range. */
export function between(known: readonly Interval[], first: number, last: number): Interval[] {
  const gaps: Interval[] = [];
  let from = first;
  for (const [begin, end] of known) {
    if (begin > last) break;
    if (begin > from) gaps.push([from, begin]);
    from = Math.max(from, end);
  }
  if (from < last) gaps.push([from, last]);
  return gaps;
}

/** Axis on which the gaps between known intervals are folded. */
export function foldedAxis(known: readonly Interval[]): TimeAxis {
  const kept = united(known);
  const whole = kept.reduce((sum, [first, last]) => sum + last - first, 0);
  const most = Math.max(1, whole * FOLD_SHARE);
  const times: number[] = [];
  const positions: number[] = [];
  let position = kept[0]?.[0] ?? 0;
  let before: number | null = null;
  for (const [first, last] of kept) {
    if (before !== null) position += Math.min(most, first - before);
    times.push(first, last);
    positions.push(position, (position += last - first));
    before = last;
  }
  return { isFolded: true, positionOf: (time) => along(times, positions, time), timeAt: (at) => along(positions, times, at) };
}

/** Interpolate linearly between points; outside of them, with slope 1. */
function along(from: readonly number[], to: readonly number[], value: number): number {
  if (from.length === 0) return value;
  const last = from.length - 1;
  if (value <= (from[0] as number)) return (to[0] as number) + value - (from[0] as number);
  if (value >= (from[last] as number)) return (to[last] as number) + value - (from[last] as number);
  let [low, high] = [0, last];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((from[middle] as number) <= value) low = middle;
    else high = middle;
  }
  const [x0, x1, y0, y1] = [from[low], from[high], to[low], to[high]] as [number, number, number, number];
  return x1 === x0 ? y0 : y0 + ((value - x0) / (x1 - x0)) * (y1 - y0);
}

/** Least time that a picture shows. */
const LEAST_US = 2;

/** Range zoomed about a position that stays in its place; a factor above 1 shows more. */
export function zoomed([first, last]: Range, factor: number, about: number, bounds: Range): Range {
  const length = Math.min(Math.max(LEAST_US, (last - first) * factor), (bounds[1] - bounds[0]) * 1.1);
  const share = (about - first) / Math.max(1e-9, last - first);
  return moved([about - share * length, about + (1 - share) * length], 0, bounds);
}

/** Range moved by a share of its length, but not out of the bounds. */
export function moved([first, last]: Range, share: number, bounds: Range): Range {
  const length = last - first;
  const margin = Math.min(length, bounds[1] - bounds[0]) * 0.05;
  const [least, most] = [bounds[0] - margin, Math.max(bounds[0] - margin, bounds[1] + margin - length)];
  const begin = Math.min(most, Math.max(least, first + share * length));
  return [begin, begin + length];
}

/** Range of the same length around an interval, unless the interval is well inside already. */
export function showing(range: Range, first: number, last: number): Range {
  const length = range[1] - range[0];
  const isInside = first >= range[0] && last <= range[1];
  const isSeen = isInside && last - first >= length / 2000;
  if (isSeen) return range;
  const wanted = last - first < length / 2000 || last - first > length ? Math.max(LEAST_US, (last - first) * 4) : length;
  const middle = (first + last) / 2;
  return [middle - wanted / 2, middle + wanted / 2];
}

/** Times and resolution that are requested for a picture: more than it shows, so that it can be moved at once. */
export interface Asked {
  from: number;
  to: number;
  columns: number;
}

/** Whether an answer suffices for a picture: it has all its times, as fine as the pixels and not much finer. */
export function suffices(asked: Asked, shown: Range, width: number, extent: Range): boolean {
  const isThere = asked.from <= Math.max(shown[0], extent[0]) && asked.to >= Math.min(shown[1], extent[1]);
  const column = (asked.to - asked.from) / asked.columns;
  const pixel = (shown[1] - shown[0]) / Math.max(1, width);
  return isThere && column <= pixel * 2 && (column >= pixel / 4 || asked.columns >= MOST_COLUMNS);
}

const MOST_COLUMNS = 20_000;

/** Request for a picture, with as much before and after it. */
export function askedFor(shown: Range, width: number, extent: Range): Asked {
  const length = shown[1] - shown[0];
  const from = Math.floor(Math.max(0, extent[0], shown[0] - length));
  const to = Math.max(from + 1, Math.ceil(Math.min(extent[1], shown[1] + length)));
  return { from, to, columns: Math.min(MOST_COLUMNS, Math.max(1, Math.round((width * (to - from)) / length))) };
}
