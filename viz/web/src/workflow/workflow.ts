/** Data of the workflow's page. */

import { computed } from '@preact/signals';
import { spanOf, startOf } from './model/tasks';
import * as api from '../shared/api/workflowrequests';
import { getNode, getNodes } from '../shared/api/noderequests';
import { view } from '../shared/address/address';
import { now_ms } from '../shared/session/feed';
import { question } from '../shared/session/question';
import { lostAt, paused, status, zero_us } from '../shared/session/session';
import type { KnownQuantity } from '../shared/api/types';

const BEAT_MS = 2000;

const isOpen = (): boolean => view.value.page === 'workflow';
const goesOn = computed(() => status.value?.state !== 'ended' && lostAt.value === null && !paused.value);

/** Ticks that ask again, because tasks change their states while the trace brings no news. */
const beat = computed(() => (goesOn.value ? Math.floor(now_ms.value / BEAT_MS) : 0));

export const published = question(() => (isOpen() ? String(beat.value) : null), api.getWorkflow, { live: true, keep: true });

/** Number of nodes whose findings are read; a run on more has a page for each. */
const MOST_NODES = 16;

/** Findings about the memory of nodes, such as that it will be full. */
export const memory = question(
  () => (isOpen() ? 'memory' : null),
  async (signal) => {
    const { nodes } = await getNodes(signal);
    const all = await Promise.all(
      nodes.slice(0, MOST_NODES).map(async ({ name }) => (await getNode(name, signal)).node.findings.map((one) => ({ ...one, node: name }))),
    );
    return all.flat().filter((one) => one.kind.includes('memory'));
  },
  { live: true, keep: true },
);

/** Quantity whose curves are shown: the chosen one, or else the one of the programs with the most values. */
export const chosen = computed<api.QuantityName | null>(() => {
  const known = published.value.value?.quantities ?? [];
  const named = view.value.quantity;
  if (named !== '') return api.quantityOf(named);
  const ofPrograms = known.filter((one) => one.namespace === 'application');
  return (ofPrograms.length > 0 ? ofPrograms : known).reduce<KnownQuantity | null>((most, one) => (one.points > (most?.points ?? 0) ? one : most), null);
});

export const quantity = question(
  () => (isOpen() && chosen.value !== null ? api.nameOf(chosen.value) : null),
  (signal) => api.getQuantity(chosen.value as api.QuantityName, signal),
  { live: true, keep: true },
);

/** Range of the charts over time. */
export const span_us = computed(() => {
  const known = published.value.value;
  if (known === null) return null;
  return spanOf(
    known.tasks,
    known.nodes.map((node) => node.times_us),
    goesOn.value ? now_ms.value * 1000 : 0,
  );
});

/** Zero of the times on this page. */
export const start_us = computed(() => startOf(zero_us.value, [span_us.value?.[0], ...(quantity.value.value?.lines ?? []).map((line) => line.times_us[0])]));
