/** Data of the lists and charts of calls, and of the selected call. */

import { computed, signal } from '@preact/signals';
import { anomaliesBy, idAt, type Wording } from './model/callpoints';
import { filterQuery, filtersOf, UNFILTERED } from '../shared/asking/filters';
import type { PageName, View } from '../shared/address/model/view';
import * as api from '../shared/api/requests';
import { go, view } from '../shared/address/address';
import * as overview from '../overview/overview';
import { question } from '../shared/session/question';
import { programs, run, status, zero_us } from '../shared/session/session';

/** The filters as a text; null until the run's start is known, from which times count. */
export const filters = computed(() => {
  if (view.value.times !== null && zero_us.value === 0) return null;
  return JSON.stringify(filterQuery(view.value, view.value.times === null ? 0 : zero_us.value));
});

/** Pages on which a key leads from call to call. */
const LISTING: readonly PageName[] = ['calls', 'timeline', 'call'];

const list = computed(() => {
  const { page, sort, descending, cursor } = view.value;
  return !LISTING.includes(page) || filters.value === null ? null : JSON.stringify([filters.value, sort, descending, cursor]);
});

/** One page of the calls that match the filters. */
export const calls = question(
  () => list.value,
  (signal) => api.getCalls(view.value, zero_us.value, signal),
  { live: true, keep: true },
);

/** The same calls for the chart, as many as it shows. */
export const points = question(
  () => (view.value.page === 'calls' ? filters.value : null),
  (signal) => api.getPoints(view.value, zero_us.value, signal),
  { live: true, keep: true },
);

/** Stands for all filters, in place of the text of one. */
export const EVERY = '';

export interface Way {
  text: string;
  drop: Partial<View>;
  /** Number of calls that match without the filter. */
  calls: number;
}

const isNothing = computed(() => view.value.page === 'calls' && calls.value.value?.total === 0 && view.value.cursor === null);

/** Where no call matches: how many would match without each of the filters, and without all of them. */
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

/** Whether the user is searching for a function; only then are the names of all functions read. */
export const finding = signal(false);
export const functionNames = question(() => (finding.value ? 'functions' : null), api.getAllFunctions);

const detailOf = computed(() => (['call', 'calls', 'timeline'].includes(view.value.page) ? view.value.call : null));

/** Everything that is kept about the call whose page is open, or that is selected on another page. */
export const detail = question(
  () => detailOf.value,
  (signal) => api.getCall(detailOf.value as string, signal),
  { live: true },
);

/** The call under the pointer, in chart and table alike. */
export const hoveredCall = signal<string | null>(null);

/** Facts about the run that are needed to describe its calls. */
export const wording = computed<Wording>(() => ({
  zero_us: zero_us.value,
  programs: programs.value,
  metric: run.value.value?.config.metric ?? 'exclusive',
  scoreUnit: run.value.value?.score_unit ?? '',
  isOver: status.value?.state === 'ended',
}));

/** Ids of the anomalies that match the filters, in the order of the list. */
const anomalies = computed(() => {
  const { page, sort, descending } = view.value;
  const shown = points.value.value;
  if (page === 'calls' && shown !== null) return anomaliesBy(shown, sort, descending).map((at) => idAt(shown, at));
  const shownList = page === 'overview' ? overview.calls : calls;
  return (shownList.value.value?.calls ?? []).filter((call) => call.label === 'anomaly').map((call) => call.id);
});

/** Return the anomaly before or after the selected call; the first one where no call is selected. */
export function nextAnomaly(way: number): string | null {
  const ids = anomalies.value;
  const at = view.value.call === null ? -1 : ids.indexOf(view.value.call);
  return ids[at < 0 ? 0 : at + way] ?? null;
}

/** Select a call; if it is selected already, open its timeline. */
export function open(id: string): void {
  go(view.value.call === id ? { page: 'timeline', call: id } : { call: id });
}
