/** Data of the overview. */

import { computed } from '@preact/signals';
import { lostTime, originFunctions, originRanks, rankedFunctions, rankedRanks, type FunctionLines, type RankLines } from './model/ranking';
import { chosenTimes } from './steps/times';
import type { Happened } from './steps/model/timelayout';
import { findingsOf, summaryOf } from './model/findings';
import { filtersOf } from '../shared/asking/filters';
import { FIRST_VIEW, type List, type View } from '../shared/address/model/view';
import * as api from '../shared/api/requests';
import { view } from '../shared/address/address';
import { question } from '../shared/session/question';
import { notifies } from '../shared/session/settings';
import { run, zero_us } from '../shared/session/session';
import type { CallSummary, RankKey } from '../shared/api/types';

/** Number of incidents or calls in the list beside the heat map. */
export const LISTED = 30;

// Texts, so that panning does not repeat these requests.
const isOpen = computed(() => view.value.page === 'overview');
/** Whether the headline, the budget and the worst findings are shown. */
const isGlanced = computed(() => isOpen.value || view.value.page === 'wall' || view.value.page === 'workflow');
const rankKey = computed(() => (isOpen.value ? `${view.value.statistic} ${view.value.n} ${String(chosenTimes.value)}` : null));
const functionKey = computed(() => (isOpen.value ? `${view.value.by} ${view.value.n} ${String(chosenTimes.value)}` : null));
/** Ranking of ranks: by time lost at the origin or, in a run without incidents, by the time that their calls lost. */
export const ranking = question<RankLines>(
  () => rankKey.value,
  async (signal) => {
    const { statistic, n } = view.value;
    if (statistic !== 'origin') return rankedRanks(await api.getRanks(statistic, n, signal));
    const found = await api.getOrigins('rank', n, chosenTimes.value, signal);
    return found.total > 0 || chosenTimes.value !== null ? originRanks(found) : rankedRanks(await api.getRanks('severity_us', n, signal));
  },
  { live: true, keep: true },
);

export const functions = question<FunctionLines>(
  () => functionKey.value,
  async (signal) => {
    const { by, n } = view.value;
    const found = by === 'origin' ? await api.getOrigins('function', n, chosenTimes.value, signal) : null;
    if (found !== null && (found.total > 0 || chosenTimes.value !== null)) return originFunctions(found);
    return by === 'severity_us' || by === 'origin' ? lostTime(await api.getFunctions(signal), n) : rankedFunctions(await api.getFunctionRanking(by, n, signal));
  },
  { live: true, keep: true },
);

/** Whether incidents are needed: also on their own page, to go to the next one, and on the timeline, for published quantities. */
const isListed = computed(
  () => isGlanced.value || notifies.value || view.value.page === 'incident' || (view.value.page === 'timeline' && run.value.value?.has_published === true),
);
/** Time in which incidents are wanted: that of the chosen steps on the overview, all elsewhere. */
export const incidentTimes = computed(() => (isOpen.value ? chosenTimes.value : null));
const incidentsKey = computed(() => (isListed.value ? `incidents ${String(incidentTimes.value)}` : null));
export const incidents = question(
  () => incidentsKey.value,
  (signal) => api.getIncidents(LISTED, incidentTimes.value, signal),
  { live: true, keep: true },
);

/** Also asked for by the page that says whether the analysis slows the program down. */
const budgetKey = computed(() => (isGlanced.value || view.value.page === 'health' ? 'budget' : null));
export const budget = question(
  () => budgetKey.value,
  (signal) => api.getBudget(signal),
  { live: true, keep: true },
);

/** Incidents, and findings about published quantities, that began at some time. */
export const happened = computed<Happened[]>(() =>
  (incidents.value.value === null ? [] : findingsOf(incidents.value.value)).flatMap((one): Happened[] => {
    const { id, sentence } = summaryOf(one);
    if (one.kind === 'incident') return [{ id, time_us: one.incident.begin_us, text: sentence }];
    if (one.kind === 'metric' && one.metric.finding.begin_us > 0) return [{ id, time_us: one.metric.finding.begin_us, text: sentence }];
    return [];
  }),
);

/** Begins of the findings about published quantities. */
export const published = computed(() =>
  (incidents.value.value?.metrics ?? [])
    .filter(({ finding }) => finding.begin_us > 0)
    .map(({ id, sentence, finding }) => ({ id, sentence, time_us: finding.begin_us })),
);

/** List that is shown: calls instead of incidents where the run has none, or where filters of calls are set. */
export const list = computed<List>(() => {
  const found = incidents.value.value;
  const isNone = found !== null && found.total === 0 && found.recurrences.length === 0 && found.metrics.length === 0;
  const filters = filtersOf({ ...view.value, steps: chosenTimes.value === null ? view.value.steps : null });
  return view.value.list === 'incidents' && (isNone || filters.length > 0) ? 'worst' : view.value.list;
});

/** View of the listed calls: the abnormal ones within the filters, the worst or the newest first. */
export const listed = computed<View>(() => ({
  ...view.value,
  label: 'anomaly',
  sort: list.value === 'newest' ? 'entry_us' : 'severity_us',
  descending: true,
  cursor: null,
}));
export const callsAsked = computed(() => api.callsRequest(listed.value, zero_us.value, LISTED));
const callsKey = computed(() => (isOpen.value && list.value !== 'incidents' ? JSON.stringify(callsAsked.value) : null));

export const calls = question(
  () => callsKey.value,
  (signal) => api.getCalls(listed.value, zero_us.value, signal, LISTED),
  { live: true, keep: true },
);

/** Read the abnormal call of a rank and step that lost most time; null where none is stored. */
export async function worstCall(rank: RankKey, step: number, signal: AbortSignal): Promise<CallSummary | null> {
  const wanted: View = { ...FIRST_VIEW, label: 'anomaly', rank, steps: [step, step], sort: 'severity_us' };
  const found = await api.getCalls(wanted, zero_us.value, signal, 1);
  return found.calls[0] ?? null;
}
