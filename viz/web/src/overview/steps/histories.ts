/** Ranks in the chart of steps, and their histories, as read and updated since. */

import { computed, effect, signal, untracked } from '@preact/signals';
import { merge, MOST_STEPS, wholeFrom, type History } from './model/history';
import type { Series } from './model/steplayout';
import type { Range } from '../../shared/address/model/ranges';
import { keepSlots } from '../../shared/address/model/slots';
import type { View } from '../../shared/address/model/view';
import { getSteps } from './requests';
import { view } from '../../shared/address/address';
import { end, shownSteps } from '../heatmap/grid';
import { ranking } from '../overview';
import { course } from './times';
import { question } from '../../shared/session/question';
import { Resource } from '../../shared/session/resource';
import * as session from '../../shared/session/session';
import type { RankKey } from '../../shared/api/types';

/**
 * Least time that leading ranks stay in the chart, though others lead meanwhile: lines that come and go cannot be read,
 * and each page has to ask for the whole history of each rank that comes.
 */
const STAY_MS = 30_000;

const kept = new Map<RankKey, History>();
/** Ranks whose history was read; they are watched since then, so nothing is missed. */
const read = new Set<RankKey>();
const automatic = signal<View['selected']>([]);

export const steps = new Resource<Map<RankKey, History>>();
/** Histories by rank. */
const histories = signal<ReadonlyMap<RankKey, History>>(new Map());
export const hasSelection = computed(() => view.value.selected.some((rank) => rank !== null));
/** Ranks by colour slot: the selected ones, or else those that lead the ranking. */
export const slots = computed(() => (hasSelection.value ? view.value.selected : automatic.value));
const shownRanks = computed(() => (course.value === 'ranks' ? slots.value.filter((rank) => rank !== null) : []));
const shownKey = computed(() => shownRanks.value.join(','));

let chosen = { by: '', at_ms: 0 };
effect(() => {
  const { top, by: statistic } = ranking.value.value ?? { top: [], by: '' };
  const by = `${statistic} ${top.length}`;
  const hasEnded = untracked(() => session.status.value?.state === 'ended');
  if (by === chosen.by && !hasEnded && Date.now() - chosen.at_ms < STAY_MS) return;
  chosen = { by, at_ms: Date.now() };
  const ranks = top.map((row) => `${row.program}:${row.rank}`);
  automatic.value = untracked(() => keepSlots(automatic.value, ranks));
});
effect(() => {
  void shownKey.value;
  untracked(() => void readMissing());
});
effect(() => {
  if (!session.paused.value) untracked(show);
});
session.follow({
  onFrame(frame) {
    if (frame.resync) void readAgain();
  },
  onSteps(steps) {
    for (const [rank, rows] of Object.entries(steps)) kept.set(rank, merge(kept.get(rank) ?? [], rows));
    if (!session.paused.value) show();
  },
  onLinked() {
    // The answer on its way may lack what was sent before the connection was made; a run that has ended does not change.
    if (session.status.value?.state !== 'ended') void readAgain();
  },
});

function show(): void {
  histories.value = new Map(kept);
}

function readAgain(): Promise<void> {
  read.clear();
  return readMissing();
}

/** Watch the ranks that are shown, and only then read the missing histories, so that no step is lost in between. */
async function readMissing(): Promise<void> {
  const ranks = shownRanks.value;
  for (const rank of read) if (!ranks.includes(rank)) read.delete(rank);
  await session.watch(ranks).catch(() => undefined);
  const missing = ranks.filter((rank) => !read.has(rank));
  if (missing.length === 0) return;
  await steps.load(async (signal) => {
    const found = await getSteps(missing, signal, [Math.max(0, end.peek() - MOST_STEPS), Infinity]);
    for (const [rank, rows] of found) kept.set(rank, merge(kept.get(rank) ?? [], rows));
    for (const rank of missing) if (shownRanks.value.includes(rank)) read.add(rank);
    for (const rank of [...kept.keys()]) if (!shownRanks.value.includes(rank)) kept.delete(rank);
    // A rank that is selected while paused is shown as of now, since no older history of it was read.
    const shown = histories.value;
    if (!session.paused.value || ranks.some((rank) => !shown.has(rank))) show();
    return found;
  });
}

/** Shown steps that were dropped from the histories here. */
const letGo = computed(() => {
  const window = shownSteps.value;
  if (window === null || [...histories.value.values()].every((rows) => wholeFrom(rows) <= window[0])) return null;
  return JSON.stringify([shownRanks.value, window]);
});
const older = question(
  () => letGo.value,
  async (signal) => {
    const [ranks, window] = JSON.parse(letGo.peek() as string) as [RankKey[], Range];
    return { window, found: await getSteps(ranks, signal, window) };
  },
);

/** Series of the chart of steps. */
export const series = computed<Series[]>(() => {
  const piece = letGo.value === null ? null : older.value.value;
  return slots.value.flatMap((rank, slot): Series[] => {
    if (rank === null) return [];
    const rows = histories.value.get(rank) ?? [];
    if (piece !== null) return [{ rank, slot, rows: merge(piece.found.get(rank) ?? [], rows, Infinity), from: piece.window[0] }];
    return [{ rank, slot, rows, from: wholeFrom(rows) }];
  });
});
