/** Ticks of axes. */

import { ticks } from 'd3-array';

/** Round integers from `first` to `last`, about `most` of them, without repetition. */
export function wholeTicks(first: number, last: number, most: number): number[] {
  return last - first < 1 ? [first] : roundTicks(first, last, Math.min(most, last - first));
}

/** Round numbers from `first` to `last`, about `most` of them. */
export function roundTicks(first: number, last: number, most: number): number[] {
  return ticks(first, last, Math.max(1, most));
}

const FACTORS = [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];

/**
 * Round numbers from `first` to `last`, both above zero, at most `most` of them, for a logarithmic axis.
 *
 * d3's ticks are thinned out by value and not by position: of 10, 20, ... 70, 100, the labels before the last overlap.
 */
export function logTicks(first: number, last: number, most: number): number[] {
  // Within a factor of three there are too few round numbers for a logarithmic step.
  if (last < 3 * first) return roundTicks(first, last, most);
  const [low, high] = [Math.floor(Math.log10(first)), Math.ceil(Math.log10(last))];
  const powers = Array.from({ length: high - low + 1 }, (_, at) => low + at);
  const isInside = (value: number): boolean => value >= first && value <= last;
  for (const factors of FACTORS) {
    const found = powers.flatMap((power) => factors.map((factor) => factor * 10 ** power)).filter(isInside);
    if (found.length <= Math.max(2, most)) return found;
  }
  const each = Math.ceil(powers.length / Math.max(2, most));
  return powers
    .filter((power) => power % each === 0)
    .map((power) => 10 ** power)
    .filter(isInside);
}
