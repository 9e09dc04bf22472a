/** What the overview asks. */

import { computed } from '@preact/signals';
import { lostTime, rankedFunctions, type FunctionLines } from './model/ranking';
import { FIRST_VIEW, type View } from '../shared/address/model/view';
import * as api from '../shared/api/requests';
import { view } from '../shared/address/address';
import { question } from '../shared/session/question';
import { zero_us } from '../shared/session/session';
import type { CallSummary, RankKey } from '../shared/api/types';

/** Calls in the list beside the heat map. */
export const LISTED = 30;

// As texts, so that panning asks none of these again.
const isOpen = computed(() => view.value.page === 'overview');
const rankKey = computed(() => (isOpen.value ? `${view.value.statistic} ${view.value.n}` : null));
const functionKey = computed(() => (isOpen.value ? `${view.value.by} ${view.value.n}` : null));
export const ranking = question(
  () => rankKey.value,
  (signal) => api.getRanks(view.value.statistic, view.value.n, signal),
  { live: true, keep: true },
);

export const functions = question<FunctionLines>(
  () => functionKey.value,
  async (signal) => {
    const { by, n } = view.value;
    return by === 'severity_us' ? lostTime(await api.getFunctions(signal), n) : rankedFunctions(await api.getFunctionRanking(by, n, signal));
  },
  { live: true, keep: true },
);

/** The abnormal calls within the filters, worst or newest first. */
export const listed = computed<View>(() => ({
  ...view.value,
  label: 'anomaly',
  sort: view.value.list === 'worst' ? 'severity_us' : 'entry_us',
  descending: true,
  cursor: null,
}));
export const callsAsked = computed(() => api.callsRequest(listed.value, zero_us.value, LISTED));
const callsKey = computed(() => (isOpen.value ? JSON.stringify(callsAsked.value) : null));

export const calls = question(
  () => callsKey.value,
  (signal) => api.getCalls(listed.value, zero_us.value, signal, LISTED),
  { live: true, keep: true },
);

/** The abnormal call of a rank in a step that lost most time; null where none is stored. */
export async function worstCall(rank: RankKey, step: number, signal: AbortSignal): Promise<CallSummary | null> {
  const wanted: View = { ...FIRST_VIEW, label: 'anomaly', rank, steps: [step, step], sort: 'severity_us' };
  const found = await api.getCalls(wanted, zero_us.value, signal, 1);
  return found.calls[0] ?? null;
}
