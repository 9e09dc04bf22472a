/** History of one rank: its steps in order, however they arrive. */

import { summed } from '../../../shared/units/columns';
import type { Range } from '../../../shared/address/model/ranges';
import type { StepColumns, StepRow } from '../../../shared/api/types';

export type History = readonly StepRow[];

export function rowsOf({ steps, starts_us, durations_us, ...others }: StepColumns): StepRow[] {
  const starts = summed(starts_us);
  const of = (column: number[], at: number): number => column[at] as number;
  return summed(steps).map((step, at) => [
    step,
    of(starts, at),
    of(starts, at) + of(durations_us, at),
    of(others.calls, at),
    of(others.anomalies, at),
    of(others.severities_us, at),
    of(others.highest_scores, at),
  ]);
}

/** Most steps of one rank that are kept here: five hours at one per second, 30 MB for 12 ranks. The server has older ones. */
export const MOST_STEPS = 20_000;

/** Return the newest of `rows` and `more`; a step that exists already is replaced. Without anything new, it is the same array. */
export function merge(rows: History, more: readonly StepRow[], most = MOST_STEPS): History {
  const all = together(rows, more);
  return all.length > most ? all.slice(all.length - most) : all;
}

function together(rows: History, more: readonly StepRow[]): History {
  if (more.length === 0) return rows;
  const last = rows[rows.length - 1];
  const sorted = [...more].sort((a, b) => a[0] - b[0]);
  // Almost always, the new steps follow the old ones.
  if (last === undefined || (sorted[0] as StepRow)[0] > last[0]) return [...rows, ...unique(sorted)];
  const byStep = new Map(rows.map((row) => [row[0], row]));
  for (const row of sorted) byStep.set(row[0], row);
  return [...byStep.values()].sort((a, b) => a[0] - b[0]);
}

function unique(sorted: readonly StepRow[]): StepRow[] {
  return sorted.filter((row, index) => sorted[index + 1]?.[0] !== row[0]);
}

/** First step from which on a history is complete: older steps may have been dropped. */
export const wholeFrom = (rows: History, most = MOST_STEPS): number => (rows.length < most ? 0 : (rows[0] as StepRow)[0]);

/** Ranges of steps that were not analysed, from `from` to the rank's last one: they are unknown, not zero. */
export function gaps(rows: History, from = 0): Range[] {
  const found: Range[] = [];
  let expected = from;
  for (const [step] of rows) {
    if (step > expected) found.push([expected, step - 1]);
    expected = step + 1;
  }
  return found;
}

/** Index of the first row whose step is not below `step`. */
export function lowerBound(rows: History, step: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as StepRow)[0] < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Number of anomalies in all histories. */
export function total(histories: Iterable<History>): number {
  let sum = 0;
  for (const rows of histories) for (const row of rows) sum += row[4];
  return sum;
}
