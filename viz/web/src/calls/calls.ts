/** Lists and charts of calls, and the call that is looked at. */

import { computed, signal } from '@preact/signals';
import { anomaliesBy, idAt, type Wording } from './model/callpoints';
import { filterQuery, filtersOf, UNFILTERED } from '../shared/asking/filters';
import type { PageName, View } from '../shared/address/model/view';
import * as api from '../shared/api/requests';
import { go, view } from '../shared/address/address';
import * as overview from '../overview/overview';
import { question } from '../shared/session/question';
import { programs, run, zero_us } from '../shared/session/session';

/** What the filters ask, as a text; null while times are not known yet, for they count from the run's start. */
export const filters = computed(() => {
  if (view.value.times !== null && zero_us.value === 0) return null;
  return JSON.stringify(filterQuery(view.value, view.value.times === null ? 0 : zero_us.value));
});

/** Pages on which calls follow one after the other. */
const LISTING: readonly PageName[] = ['calls', 'timeline', 'call'];

const list = computed(() => {
  const { page, sort, descending, cursor } = view.value;
  return !LISTING.includes(page) || filters.value === null ? null : JSON.stringify([filters.value, sort, descending, cursor]);
});

/** The calls that match the filters, a page of them. */
export const calls = question(
  () => list.value,
  (signal) => api.getCalls(view.value, zero_us.value, signal),
  { live: true, keep: true },
);

/** The same calls for the chart, as many as it can show. */
export const points = question(
  () => (view.value.page === 'calls' ? filters.value : null),
  (signal) => api.getPoints(view.value, zero_us.value, signal),
  { live: true, keep: true },
);

/** Instead of a filter's text: all of them. */
export const EVERY = '';

export interface Way {
  text: string;
  drop: Partial<View>;
  /** Calls that match then. */
  calls: number;
}

const isNothing = computed(() => view.value.page === 'calls' && calls.value.value?.total === 0 && view.value.cursor === null);

/** Where nothing matches: how many calls there would be without each of the filters, and without all. */
export const ways = question(
  () => (isNothing.value ? filters.value : null),
  (signal) =>
    Promise.all([
      ...filtersOf(view.value).map((filter) => way(filter.text(view.value, programs.value), filter.dropped, signal)),
      way(EVERY, UNFILTERED, signal),
    ]),
  { live: true },
);

async function way(text: string, drop: Partial<View>, signal: AbortSignal): Promise<Way> {
  const found = await api.getCalls({ ...view.value, ...drop }, zero_us.value, signal, 1);
  return { text, drop, calls: found.total };
}

/** The function under the search field of the page is being looked for: only then are all their names read. */
export const finding = signal(false);
export const functionNames = question(() => (finding.value ? 'functions' : null), api.getAllFunctions);

const detailOf = computed(() => (['call', 'calls', 'timeline'].includes(view.value.page) ? view.value.call : null));

/** Everything kept about the call whose page is open, or that is chosen among others. */
export const detail = question(
  () => detailOf.value,
  (signal) => api.getCall(detailOf.value as string, signal),
  { live: true },
);

/** The call under the pointer, in chart and table alike. */
export const hoveredCall = signal<string | null>(null);

/** How calls of this run are put into words. */
export const wording = computed<Wording>(() => ({
  zero_us: zero_us.value,
  programs: programs.value,
  metric: run.value.value?.config.metric ?? 'exclusive',
  detector: run.value.value?.config.detector ?? '',
}));

/** Ids of the anomalies in the filter, in the order of the list. */
const anomalies = computed(() => {
  const { page, sort, descending } = view.value;
  const shown = points.value.value;
  if (page === 'calls' && shown !== null) return anomaliesBy(shown, sort, descending).map((at) => idAt(shown, at));
  const shownList = page === 'overview' ? overview.calls : calls;
  return (shownList.value.value?.calls ?? []).filter((call) => call.label === 'anomaly').map((call) => call.id);
});

/** The anomaly before or after the one that is looked at; the first where none is. */
export function nextAnomaly(way: number): string | null {
  const ids = anomalies.value;
  const at = view.value.call === null ? -1 : ids.indexOf(view.value.call);
  return ids[at < 0 ? 0 : at + way] ?? null;
}

/** What a click on a call does: it is selected, and once it is, its timeline opens. */
export function open(id: string): void {
  go(view.value.call === id ? { page: 'timeline', call: id } : { call: id });
}
