/** Data of the flame graph: its call paths, and the frame that it is zoomed to. */

import { computed } from '@preact/signals';
import { searched } from './find';
import { framesOf, indexOfFrame } from './model/frames';
import * as api from '../shared/api/functionrequests';
import { go, view } from '../shared/address/address';
import { oneRank } from '../shared/address/model/ranges';
import { question } from '../shared/session/question';
import { run } from '../shared/session/session';
import type { RankKey } from '../shared/api/types';

/** Rank whose call paths are shown; null for all ranks together. */
export const rank = computed<RankKey | null>(() => oneRank(view.value.rank));

export const found = question(
  () => (view.value.page === 'flame' ? `paths ${rank.value ?? ''}` : null),
  (signal) => api.getAllPaths(rank.value, signal),
  { live: true },
);

export const frames = computed(() =>
  framesOf(found.value.value?.paths ?? [], {
    weight: view.value.weight,
    name: view.value.function,
    program: view.value.program,
    metric: run.value.value?.config.metric ?? 'exclusive',
  }),
);

/** Index of the frame that fills the width. */
export const zoomed = computed(() => indexOfFrame(frames.value, view.value.frame));

export const matches = computed(() => searched(frames.value, zoomed.value));

export function zoomTo(index: number): void {
  go({ frame: index === 0 ? '' : (frames.value[index]?.id ?? '') });
}
