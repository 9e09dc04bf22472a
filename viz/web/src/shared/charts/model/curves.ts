/** Curves over time: their ranges, their paths, and their values at a moment. */

import type { Line } from '../../api/types';
import { clock, fixed } from '../../units/units';
import { roundTicks } from './ticks';

export interface Curve {
  name: string;
  times_us: readonly number[];
  /** Values; null stands for a value that is not a number. */
  values: readonly (number | null)[];
  /** Whether the curve stands out. */
  isMarked?: boolean;
}

/** Return a curve for each rank of a published quantity; those of `ranks` are marked. */
export const curvesOf = (lines: readonly Line[], ranks: readonly number[]): Curve[] =>
  lines.map(({ rank, times_us, values }) => ({ name: `rank ${rank}`, times_us, values, isMarked: ranks.includes(rank) }));

/** Range from the least to the largest value; with room on both sides where all are equal. */
export function rangeOf(curves: readonly Curve[]): [number, number] {
  let [least, most] = [Infinity, -Infinity];
  for (const { values } of curves) {
    for (const value of values) {
      if (value !== null) [least, most] = [Math.min(least, value), Math.max(most, value)];
    }
  }
  if (least > most) return [0, 1];
  return least === most ? [least - (Math.abs(least) || 1) / 2, most + (Math.abs(most) || 1) / 2] : [least, most];
}

/** SVG path of a curve, interrupted where there is no number; an isolated value is a short stroke. */
export function pathOf({ times_us, values }: Curve, x: (time_us: number) => number, y: (value: number) => number): string {
  let isDown = false;
  return values
    .map((value, at) => {
      if (value === null) {
        isDown = false;
        return '';
      }
      const point = `${x(times_us[at] as number).toFixed(1)} ${y(value).toFixed(1)}`;
      const isAlone = !isDown && (values[at + 1] ?? null) === null;
      const mark = isDown ? `L${point}` : `M${point}${isAlone ? 'h1.5' : ''}`;
      isDown = true;
      return mark;
    })
    .join('');
}

/** Ticks at round times from `first_us` to `last_us`, with no more decimals than they need. */
export function timeTicks(first_us: number, last_us: number, most: number): { at_us: number; text: string }[] {
  const found = roundTicks(first_us, last_us, most);
  const step_us = (found[1] ?? Infinity) - (found[0] ?? 0);
  const decimals = Math.min(6, Math.max(0, Math.ceil(6 - Math.log10(step_us) - 1e-9)));
  return found.map((at_us) => ({ at_us, text: step_us < 1e6 ? `${fixed(at_us / 1e6, decimals)} s` : clock(at_us) }));
}

/** Times at which any curve has a point, at most `most` of them, evenly chosen. */
export function momentsOf(curves: readonly Curve[], most: number): number[] {
  const all = [...new Set(curves.flatMap((curve) => curve.times_us))].sort((one, other) => one - other);
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, at) => all[Math.round((at * (all.length - 1)) / (most - 1))] as number);
}

/** Newest value of a curve at a moment: undefined before its first value, null where it was not a number. */
export function valueAt({ times_us, values }: Curve, time_us: number): number | null | undefined {
  let [low, high] = [0, times_us.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times_us[middle] as number) <= time_us) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? undefined : values[low - 1];
}
