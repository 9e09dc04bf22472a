/** Which colour of the ramp a cell has: by its anomalies, or by the time lost. */

import { duration, durationUnit, inUnit } from '../../../shared/units/units';
import type { Measure } from '../../../shared/address/model/view';
import { UNKNOWN } from './grid';

/** Colours of the ramp, from the least to the most. */
export interface Bins {
  /** Of each colour, as the legend has it. */
  names: readonly string[];
  /** The colour of a cell's value from 1 on. */
  of: (value: number) => number;
}

/** Largest count of each bin; the last has no bound. */
const COUNTS = [1, 2, 4, 8, 16] as const;
const BY_COUNT: Bins = {
  names: ['1', '2', '3–4', '5–8', '9–16', '17+'],
  of: (count) =>
    binIn(
      COUNTS.map((most) => most + 1),
      count,
    ),
};

/** The middle of the times that a code stands for, in µs; the times differ from it by an eighth at most. */
export const lostOfCode = (code: number): number => (code === 0 ? 0 : 2 ** ((code - 0.5) / 3));

/** Bins of a map whose largest value is this: counts have fixed ones, times those that end there. They only widen. */
export function binsOf(measure: Measure, most: number): Bins {
  if (measure === 'anomalies') return BY_COUNT;
  if (most === 0) return { names: [], of: () => 0 };
  const begins = lostBegins(lostOfCode(most));
  const names = begins.map((from, at) => {
    const to = begins[at + 1];
    return to === undefined ? `${duration(from)}+` : rangeOf(from, to, begins[at + 2]);
  });
  return { names: [`<${duration(begins[0] as number)}`, ...names], of: (code) => binIn(begins, lostOfCode(code)) };
}

/** A range of times; where the one that follows has the same unit, it is left out. */
function rangeOf(from: number, to: number, next: number | undefined): string {
  const unit = durationUnit(to);
  if (durationUnit(from) !== unit) return `${duration(from)}–${duration(to)}`;
  return `${inUnit(from, unit)}–${next !== undefined && durationUnit(next) === unit ? inUnit(to, unit) : duration(to)}`;
}

/** 1, 3, 10, 30 ... µs: where the five upper bins of times begin, of which the largest is this. */
function lostBegins(most_us: number): number[] {
  const power = Math.max(4, Math.floor(Math.log10(Math.max(1, most_us)) * 2 + 0.05));
  return [4, 3, 2, 1, 0].map((below) => {
    const halves = power - below;
    return 10 ** Math.floor(halves / 2) * (halves % 2 === 0 ? 1 : 3);
  });
}

/** How many of the bins begin at or below a value. */
const binIn = (begins: readonly number[], value: number): number => begins.filter((from) => value >= from).length;

/** The largest value of cells; 0 where none is known. */
export function largestOf(cells: Uint8Array): number {
  let most = 0;
  for (const value of cells) if (value > most && value !== UNKNOWN) most = value;
  return most;
}
