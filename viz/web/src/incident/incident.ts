/** Data of the incident whose page is open: the incident, its origin with a normal call, and the timeline of its ranks. */

import { computed, signal } from '@preact/signals';
import { ranksOf, MOST_LANES, timesOf, waitsOf } from './model/lanes';
import { decodeTimeline, type RankSpans } from '../timeline/model/spans';
import { sceneOf } from '../timeline/model/lines';
import { PLAIN_AXIS } from '../timeline/model/timelineaxis';
import { getTimeline } from '../timeline/requests';
import { getBeside } from '../shared/api/functionrequests';
import * as api from '../shared/api/requests';
import { Refused } from '../shared/api/http';
import { view } from '../shared/address/address';
import { isMetric, isRecurring } from '../shared/address/model/view';
import { question } from '../shared/session/question';
import type { RankKey } from '../shared/api/types';

const wanted = computed(() =>
  view.value.page === 'incident' && !isRecurring(view.value.incident) && !isMetric(view.value.incident) ? view.value.incident : null,
);

export const found = question(
  () => wanted.value,
  (signal) => api.getIncident(wanted.value as string, signal),
  { live: true },
);

const incident = computed(() => (wanted.value === null ? null : (found.value.value?.incident ?? null)));

/** Call that lost the time or, where it is not on record, the call that waited longest. */
const subject = computed(() => incident.value?.call_id || incident.value?.waited[0]?.call_id || null);
export const call = question(
  () => subject.value,
  (signal) => api.getCall(subject.value as string, signal),
  { live: true },
);

/** Activity of the node around that call. */
export const beside = question(
  () => subject.value,
  (signal) => getBeside(subject.value as string, signal),
  { live: true },
);

/** Width of the picture in pixels; 0 until it is laid out. */
export const width = signal(0);
const ranks = computed(() => (incident.value === null ? [] : ranksOf(incident.value)));
export const lanes = computed(() => ranks.value.slice(0, MOST_LANES));
/** Number of ranks without a lane. */
export const withoutLane = computed(() => ranks.value.length - lanes.value.length);
const times = computed(() => incident.value && timesOf(incident.value));
const asked = computed(() => (times.value === null || width.value === 0 ? null : JSON.stringify([lanes.value, times.value, width.value])));

/** Calls of all lanes. */
export const spans = question(
  () => asked.value,
  async (signal) => {
    const all = lanes.value;
    const read = await Promise.all(all.map((rank) => readLane(rank, all, signal)));
    return read.filter((one) => one !== null);
  },
  { live: true },
);

/** Read the calls of a rank; null for a rank without a stored step. */
async function readLane(rank: RankKey, all: readonly RankKey[], signal: AbortSignal): Promise<RankSpans | null> {
  const [from, to] = times.value ?? [0, 1];
  const others = all.filter((one) => one !== rank);
  try {
    return decodeTimeline(rank, await getTimeline(rank, others, { from, to, columns: width.value }, width.value, signal));
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

export const scene = computed(() => sceneOf(spans.value.value ?? [], PLAIN_AXIS, null));
export const waits = computed(() => (incident.value === null ? [] : waitsOf(scene.value, incident.value)));
export const shown = computed(() => times.value ?? ([0, 1] as const));
