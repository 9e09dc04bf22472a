/** Data of the page about the health of the analysis. */

import { computed } from '@preact/signals';
import { levelFor } from './model/health';
import * as api from '../shared/api/requests';
import { oneRank } from '../shared/address/model/ranges';
import { view } from '../shared/address/address';
import { now_ms } from '../shared/session/feed';
import { question } from '../shared/session/question';
import { lostAt, paused, status } from '../shared/session/session';

/** Points of a chart, which is not much wider in pixels. */
const MOST_POINTS = 300;

const BEAT_MS = 5000;

const isOpen = (): boolean => view.value.page === 'health';

/** Ticks that ask again while nothing is new, because the ages of agents grow all the same. */
const beat = computed(() => {
  const goesOn = status.value?.state !== 'ended' && lostAt.value === null && !paused.value;
  return goesOn ? Math.floor(now_ms.value / BEAT_MS) : 0;
});

export const vitals = question(() => (isOpen() ? String(beat.value) : null), api.getVitals, { live: true, keep: true });
export const placement = question(() => (isOpen() ? '' : null), api.getPlacement, { live: true, keep: true });
export const gaps = question(() => (isOpen() ? '' : null), api.getGaps, { live: true, keep: true });

/** Level of the step sums that show the pace of a run that no dashboard followed. */
const level = computed(() => {
  const known = vitals.value.value;
  return known === null || known.history.length > 2 ? null : levelFor((known.status.last_step ?? 0) + 1, MOST_POINTS);
});
export const pace = question(
  () => (isOpen() && level.value !== null ? String(level.value) : null),
  (signal) => api.getStepSums(level.value ?? 0, signal),
  { keep: true },
);

const streamsWanted = (): string => {
  const { streamOrder, streamState, streamCursor } = view.value;
  return JSON.stringify([streamOrder, streamState, streamCursor]);
};
export const streams = question(
  () => (isOpen() ? streamsWanted() : null),
  (signal) => api.getStreams(view.value, signal),
  { live: true, keep: true },
);

/** Rank whose metadata are shown: the chosen one, or else the first. */
export const metadataRank = (): string => oneRank(view.value.rank) ?? '0:0';
export const metadata = question(
  () => (isOpen() ? metadataRank() : null),
  (signal) => api.getMetadata(metadataRank(), signal),
  { keep: true },
);
