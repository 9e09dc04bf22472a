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

/** Comparison around a change: its sides as folders joined by /, and the run whose page it is where that is another one. */
export interface Sides {
  run?: string;
  compare: string;
  also: string;
}

/** Comparison around a change, on the page of this run if it is on either side; null where too few runs are left. */
export function sidesOf({ history, this: own, folders }: HistoryAnswer, change: SeriesChange): Sides | null {
  if (history == null || own === null) return null;
  const [begin, end] = boundsOf(history, change);
  const usable = (from: number, to: number): string[] =>
    folders.slice(from, to).filter((folder, at) => folder !== '' && from + at !== own && history.runs[from + at]?.is_good);
  const before = usable(begin, change.at).slice(-MOST_COMPARED);
  const after = usable(change.at, end).slice(0, MOST_COMPARED);
  if (own < begin || own >= end) {
    const run = history.runs.find(({ is_good }, at) => is_good && at >= change.at && folders[at] === after[0])?.id;
    return before.length === 0 || run === undefined ? null : { run, compare: before.join('/'), also: after.slice(1).join('/') };
  }
  if (own >= change.at) return before.length === 0 ? null : { compare: before.join('/'), also: after.slice(0, MOST_COMPARED - 1).join('/') };
  return after.length === 0 ? null : { compare: after.join('/'), also: before.slice(1 - MOST_COMPARED).join('/') };
}

function boundsOf(history: SeriesHistory, change: SeriesChange): [number, number] {
  const places = [0, ...history.changes.map((one) => one.at), history.runs.length];
  const at = places.indexOf(change.at, 1);
  return [places[at - 1] ?? 0, places[at + 1] ?? history.runs.length];
}

/** First sentence of the page. */
export function historyAnswer(history: SeriesHistory): string {
  const of = `${plural(history.runs.length, 'run')} of ${history.series}`;
  const last = history.changes.at(-1);
  if (last === undefined) return `${of}: nothing has changed, as far as their noise allows to say.`;
  const [told] = last.sentence.replace(/^S/, 's').split(/;|\.$/);
  return `${of}: ${plural(history.changes.length, 'change')}, the last ${told}.`;
}
