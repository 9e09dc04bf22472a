/** What the server said, what is shown of it (the two differ while paused), and when to ask again. */

import { batch, computed, effect, signal, untracked } from '@preact/signals';
import { merge, type History } from '../lib/history';
import type { CallDetail, CallPage, ComparisonAnswer, FunctionRow, ListedRun, LiveFrame, Ranking, RankKey, Run, Status } from '../lib/types';
import { keepSlots, type View } from '../lib/view';
import { connect, type Events } from '../net/events';
import * as http from '../net/http';
import { view } from './address';
import { Resource } from './resource';

/** Lists are asked for again at most this often: who reads them must be able to. */
const REFRESH_MS = 2000;

export const run = new Resource<Run>();
export const ranking = new Resource<Ranking>();
export const functions = new Resource<{ functions: FunctionRow[]; total: number }>();
export const calls = new Resource<CallPage>();
export const detail = new Resource<CallDetail>();
export const runs = new Resource<{ runs: ListedRun[] }>();
export const comparison = new Resource<ComparisonAnswer>();
export const steps = new Resource<Map<RankKey, History>>();

const latest = signal<Status | null>(null);
const pausedAt = signal<Status | null>(null);
const kept = new Map<RankKey, History>();

/** Histories that are shown, by rank. */
export const histories = signal<ReadonlyMap<RankKey, History>>(new Map());
/** When the link was lost, ms; null while it stands. */
export const lostAt = signal<number | null>(null);
export const paused = computed(() => pausedAt.value !== null);
export const status = computed(() => pausedAt.value ?? latest.value);
export const arrivedWhilePaused = computed(() =>
  pausedAt.value === null || latest.value === null ? 0 : latest.value.anomalies - pausedAt.value.anomalies,
);
/** Zero of all times shown. */
export const zero_us = computed(() => status.value?.zero_us ?? 0);
export const programs = computed(() => Object.keys(run.value.value?.programs ?? {}).length);

const automatic = signal<View['selected']>([]);
export const hasSelection = computed(() => view.value.selected.some((rank) => rank !== null));
/** Ranks by colour slot: the selected ones, else those that lead the ranking. */
export const slots = computed(() => (hasSelection.value ? view.value.selected : automatic.value));
const shownRanks = computed(() => slots.value.filter((rank) => rank !== null));
const shownKey = computed(() => shownRanks.value.join(','));

let events: Events = { watch: async () => {} };

/** Begin: ask for everything that the address needs, and follow what is new. */
export function start(): void {
  events = connect({ onLink, onFrame });
  effect(() => {
    const { statistic, n } = view.value;
    void ranking.load((signal) => http.getRanks(statistic, n, signal));
  });
  effect(() => {
    const top = ranking.value.value?.top ?? [];
    const ranks = top.map((row) => `${row.program}:${row.rank}`);
    automatic.value = untracked(() => keepSlots(automatic.value, ranks));
  });
  const callsKey = computed(() => {
    const { function: name, rank, severity_us, steps: range, sort, descending, cursor } = view.value;
    return JSON.stringify([name, rank, severity_us, range, sort, descending, cursor]);
  });
  effect(() => {
    void callsKey.value;
    untracked(loadCalls);
  });
  const callId = computed(() => view.value.call);
  effect(() => {
    const id = callId.value;
    detail.clear();
    if (id !== null) void detail.load((signal) => http.getCall(id, signal));
  });
  const before = computed(() => view.value.compare);
  effect(() => {
    const folder = before.value;
    comparison.clear();
    if (folder === '') void runs.load(http.getRuns);
    else if (folder !== null) void comparison.load((signal) => http.getComparison(folder, signal));
  });
  effect(() => {
    void shownKey.value;
    untracked(() => void follow());
  });
  void loadOverview();
  setInterval(refresh, REFRESH_MS);
}

function loadCalls(): void {
  const asked = view.value;
  void calls.load((signal) => http.getCalls(asked, signal));
}

async function loadOverview(): Promise<void> {
  void functions.load(http.getFunctions);
  await run.load(http.getRun);
  const known = run.value.value;
  if (known !== null && (latest.value === null || known.status.version >= latest.value.version)) latest.value = known.status;
}

let once = false;

/** Ask again for the lists if anything has happened since, and once more: the store may be a moment behind. */
function refresh(): void {
  if (paused.value || lostAt.value !== null || latest.value === null) return;
  // Asking again would abandon answers that are on their way.
  if (run.busy.value || calls.busy.value || ranking.busy.value) return;
  const changed = latest.value.version !== run.value.value?.status.version;
  if (changed || once) reload();
  once = changed;
}

function reload(): void {
  const { statistic, n, cursor } = view.value;
  void loadOverview();
  void ranking.load((signal) => http.getRanks(statistic, n, signal));
  if (cursor === null) loadCalls();
}

/** Watch the ranks that are shown, then read their history: nothing can fall between. */
async function follow(): Promise<void> {
  const ranks = shownRanks.value;
  await events.watch(ranks).catch(() => undefined);
  if (ranks.length === 0) return;
  await steps.load(async (signal) => {
    const found = await http.getSteps(ranks, signal);
    for (const [rank, rows] of found) kept.set(rank, merge(kept.get(rank) ?? [], rows));
    for (const rank of [...kept.keys()]) if (!shownRanks.value.includes(rank)) kept.delete(rank);
    // A rank that was selected while paused is shown as of now: the picture has no older one of it.
    const shown = histories.value;
    if (!paused.value || ranks.some((rank) => !shown.has(rank))) histories.value = new Map(kept);
    return found;
  });
}

function onLink(connected: boolean): void {
  if (connected) {
    const wasLost = lostAt.value !== null;
    lostAt.value = null;
    if (wasLost && !paused.value) reload();
    void follow();
  } else lostAt.value ??= Date.now();
}

function onFrame(frame: LiveFrame): void {
  batch(() => {
    latest.value = frame.status;
    for (const [rank, rows] of Object.entries(frame.steps)) kept.set(rank, merge(kept.get(rank) ?? [], rows));
    if (!paused.value && Object.keys(frame.steps).length > 0) histories.value = new Map(kept);
  });
  if (frame.resync) void follow();
}

/** Freeze the picture, or show what has come since. */
export function togglePause(): void {
  batch(() => {
    if (pausedAt.value === null) pausedAt.value = latest.value;
    else {
      pausedAt.value = null;
      histories.value = new Map(kept);
    }
  });
  if (!paused.value) reload();
}
