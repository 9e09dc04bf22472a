/** Course of a quantity over the runs of a series: its stretches between changes, and the runs to compare around one. */

import type { HistoryAnswer, SeriesChange, SeriesHistory, SeriesQuantity } from '../../shared/api/types';
import { duration, plural, ratio } from '../../shared/units/units';

/** Runs between two changes of a quantity, with the median of their values. */
export interface Stretch {
  from: number;
  /** Index after the last run. */
  to: number;
  middle: number;
}

/** Most runs on one side of a comparison. */
const MOST_COMPARED = 3;

/** Value of a quantity in words. */
export const valueText = (quantity: SeriesQuantity, value: number | null | undefined): string =>
  value == null ? 'not known' : quantity.is_time ? duration(value) : ratio(value);

/** Changes of a quantity, in the order of runs. */
export const changesOf = (history: SeriesHistory, quantity: string): SeriesChange[] =>
  history.changes.filter((change) => change.quantities.some((one) => one.name === quantity));

/** Stretches of a quantity between its changes; those without any value are left out. */
export function stretchesOf(history: SeriesHistory, quantity: SeriesQuantity): Stretch[] {
  const bounds = [0, ...changesOf(history, quantity.name).map((change) => change.at), history.runs.length];
  return bounds.slice(1).flatMap((to, at) => {
    const from = bounds[at] ?? 0;
    const known = quantity.values.slice(from, to).filter((value): value is number => value !== null);
    return known.length === 0 ? [] : [{ from, to, middle: median(known) }];
  });
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const [low, high] = [sorted[(sorted.length - 1) >> 1] ?? 0, sorted[sorted.length >> 1] ?? 0];
  return (low + high) / 2;
}

/** Quantities in the order in which they are shown: those that changed first. */
export function ordered(history: SeriesHistory): SeriesQuantity[] {
  const changed = new Set(history.changes.flatMap((change) => change.quantities.map((one) => one.name)));
  return [...history.quantities].sort((one, other) => Number(changed.has(other.name)) - Number(changed.has(one.name)));
}

/** Sides of the comparison around a change, as folders joined by /; null where this run is on neither side, or nothing to compare with is left. */
export function sidesOf({ history, this: own, folders }: HistoryAnswer, change: SeriesChange): { compare: string; also: string } | null {
  if (history == null || own === null) return null;
  const [begin, end] = boundsOf(history, change);
  const usable = (from: number, to: number): string[] =>
    folders.slice(from, to).filter((folder, at) => folder !== '' && from + at !== own && history.runs[from + at]?.is_good);
  const before = usable(begin, change.at).slice(-MOST_COMPARED);
  const after = usable(change.at, end).slice(0, MOST_COMPARED);
  if (own >= change.at && own < end) return before.length === 0 ? null : { compare: before.join('/'), also: after.slice(0, MOST_COMPARED - 1).join('/') };
  if (own < begin || own >= change.at || after.length === 0) return null;
  return { compare: after.join('/'), also: before.slice(1 - MOST_COMPARED).join('/') };
}

function boundsOf(history: SeriesHistory, change: SeriesChange): [number, number] {
  const places = [0, ...history.changes.map((one) => one.at), history.runs.length];
  const at = places.indexOf(change.at, 1);
  return [places[at - 1] ?? 0, places[at + 1] ?? history.runs.length];
}

/** First sentence of the page. */
export function historyAnswer(history: SeriesHistory): string {
  const runs = plural(history.runs.length, 'run');
  if (history.changes.length === 0) return `${runs} of ${history.series}: nothing has changed, as far as their noise allows to say.`;
  return `${runs} of ${history.series}: ${plural(history.changes.length, 'change')}.`;
}
