/** Bins of the heat map's colours, by anomalies or by time lost. */

import { count, duration, durationUnit, inUnit } from '../../../shared/units/units';
import type { Measure } from '../../../shared/address/model/view';
import { UNKNOWN } from './grid';

/** Bins, from the least to the most. */
export interface Bins {
  /** Text of each colour in the legend. */
  names: readonly string[];
  /** Colour of a cell's value, which is at least 1. */
  of: (value: number) => number;
}

/** Largest count of each bin; the last bin has no bound. */
const COUNTS = [1, 2, 4, 8, 16] as const;
const BY_COUNT: Bins = {
  names: ['1', '2', '3–4', '5–8', '9–16', '17+'],
  of: (value) =>
    binIn(
      COUNTS.map((most) => most + 1),
      value,
    ),
};

/** Middle of the times that a code stands for, in µs; they differ from it by at most an eighth. */
export const lostOfCode = (code: number): number => (code === 0 ? 0 : 2 ** ((code - 0.5) / 3));

/** Bins of a map, by its largest value, which of a sum is a code: those of counts are fixed, those of times end there, and only ever widen. */
export function binsOf(measure: Measure, most: number, isSum = false): Bins {
  if (measure === 'anomalies' && !isSum) return BY_COUNT;
  if (most === 0) return { names: [], of: () => 0 };
  const begins = beginsUpTo(lostOfCode(most), isSum ? SUM_STEPS : STEPS);
  const of = (code: number): number => binIn(begins, lostOfCode(code));
  if (measure === 'anomalies') {
    const names = begins.map((from, at) => (at === begins.length - 1 ? `${count(from)}+` : `${count(from)}–${count(begins[at + 1] as number)}`));
    // A sum that is not zero is at least one.
    return { names: [begins[0] === 1 ? '' : `<${count(begins[0] as number)}`, ...names], of };
  }
  const names = begins.map((from, at) => {
    const to = begins[at + 1];
    return to === undefined ? `${duration(from)}+` : rangeOf(from, to, begins[at + 2]);
  });
  return { names: [`<${duration(begins[0] as number)}`, ...names], of };
}

/** Range of times; its unit is left out where the next range has the same one. */
function rangeOf(from: number, to: number, next: number | undefined): string {
  const unit = durationUnit(to);
  if (durationUnit(from) !== unit) return `${duration(from)}–${duration(to)}`;
  return `${inUnit(from, unit)}–${next !== undefined && durationUnit(next) === unit ? inUnit(to, unit) : duration(to)}`;
}

/** Round numbers of each decade at which bins begin; sums over many ranks lie closer together. */
const STEPS = [1, 3] as const;
const SUM_STEPS = [1, 2, 5] as const;

/** Begins of the five upper bins, by the largest value: 1, 3, 10, 30 µs and so on. */
function beginsUpTo(most: number, steps: readonly number[]): number[] {
  // The values of a code are up to an eighth above it.
  const highest = Math.max(1, most * 1.12);
  const decade = Math.floor(Math.log10(highest));
  const inDecade = steps.filter((step) => highest >= step * 10 ** decade).length;
  const last = Math.max(4, decade * steps.length + inDecade - 1);
  return [4, 3, 2, 1, 0].map((below) => {
    const at = last - below;
    return 10 ** Math.floor(at / steps.length) * (steps[at % steps.length] as number);
  });
}

/** Number of bins that begin at or below a value. */
const binIn = (begins: readonly number[], value: number): number => begins.filter((from) => value >= from).length;

/** Largest value of the cells; 0 where none is known. */
export function largestOf(cells: Uint8Array): number {
  let most = 0;
  for (const value of cells) if (value > most && value !== UNKNOWN) most = value;
  return most;
}
