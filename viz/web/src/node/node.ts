/** Data of the node whose page is open: its facts, and its charts in the time that is shown. */

import { computed } from '@preact/signals';
import * as api from '../shared/api/noderequests';
import { go, view } from '../shared/address/address';
import { question } from '../shared/session/question';
import type { Resource } from '../shared/session/resource';
import { zero_us } from '../shared/session/session';
import { CHARTS } from './charts/registry';
import type { LanesAnswer, NodeChart } from './model/nodechart';

const name = computed(() => (view.value.page === 'node' ? view.value.node : null));
const named = computed(() => name.value || null);

/** All nodes, for the page without a node. */
export const nodes = question(() => (name.value === '' ? '' : null), api.getNodes, { live: true, keep: true });

export const facts = question(
  () => named.value,
  (signal) => api.getNode(named.value as string, signal),
  { live: true },
);

/** Time of which there are samples, from the run's start on, before which only the node was sampled; null until it is known. */
export const whole = computed<api.Interval | null>(() => {
  const known = named.value === null ? undefined : facts.value.value?.node;
  if (known === undefined || zero_us.value === 0) return null;
  const begin = zero_us.value < known.end_us ? Math.max(known.begin_us, zero_us.value) : known.begin_us;
  return [begin, Math.max(begin + 1, known.end_us)];
});

export const shown = computed<api.Interval | null>(() => {
  const { window } = view.value;
  if (whole.value === null || window === null) return whole.value;
  return [zero_us.value + window[0], zero_us.value + Math.max(window[0] + 1, window[1])];
});

const asked = (from: string | null): string | null => (shown.value === null ? null : JSON.stringify([named.value, shown.value, from]));
const now = (): [node: string, times: api.Interval] => [named.value as string, shown.value as api.Interval];

/** A chart, and what the server answers for it. */
export interface AskedChart {
  chart: NodeChart;
  answer: Resource<LanesAnswer>;
}

export const charts: readonly AskedChart[] = CHARTS.map((chart) => {
  const from = (): string | null => view.value.lanesFrom[chart.name] ?? null;
  const ask = (signal: AbortSignal): Promise<LanesAnswer> => {
    const [node, times] = now();
    return api.getLanes(node, chart.name, times, from(), signal);
  };
  return { chart, answer: question(() => asked(from()), ask, { live: true, keep: true }) };
});
/** Abnormal calls that the charts mark: those that lost most. */
export const marks = question(
  () => asked(null),
  (signal) => api.getMarks(...now(), signal),
  { live: true, keep: true },
);

/** Show a time, in µs since the epoch; null for the whole time. */
export function show(times: readonly [number, number] | null): void {
  go({ window: times === null ? null : [Math.max(0, times[0] - zero_us.value), Math.max(1, times[1] - zero_us.value)] }, 'replace');
}
