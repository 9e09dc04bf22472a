/** Data of the timeline: its ranks, its times, and their calls. */

import { computed, effect, signal, untracked } from '@preact/signals';
import { bandsOf, type Band } from './model/bands';
import { decodeTimeline, type Interval, type RankSpans } from './model/spans';
import { timelineOf } from '../call/model/callwindow';
import { askedFor, foldedAxis, PLAIN_AXIS, showing, suffices, type Asked } from './model/timelineaxis';
import { anomaliesOf, sceneOf, spotOf } from './model/lines';
import { oneRank, type Range } from '../shared/address/model/ranges';
import { MOST_PARTNERS } from '../shared/address/model/view';
import { getRanks } from '../shared/api/requests';
import { stepTimesRequest } from '../overview/steps/requests';
import { get } from '../shared/api/http';
import { getSelection, getTimeline } from './requests';
import { go, view } from '../shared/address/address';
import { detail } from '../calls/calls';
import { job } from '../shared/session/longquestion';
import { question } from '../shared/session/question';
import { run, status, zero_us } from '../shared/session/session';
import type { RankKey, StepTimes, StepTimesAnswer } from '../shared/api/types';

export interface RankBands {
  times: StepTimes;
  bands: readonly Band[];
}

const isOpen = computed(() => view.value.page === 'timeline');

const rankOf = (id: string | null): RankKey | null => id?.split(':').slice(0, 2).join(':') ?? null;

/** Main rank of the page. */
export const mainRank = computed<RankKey>(() => {
  const { rank, call, selected } = view.value;
  return oneRank(rank) ?? rankOf(call) ?? selected.find((one) => one !== null) ?? run.value.value?.answer.worst_rank ?? '0:0';
});

/** Number of ranks of a run up to which all are shown, unless some are chosen. */
const FEW_RANKS = 4;

/** All ranks of a run with few ranks. */
const few = question<RankKey[]>(
  () => (isOpen.value && view.value.partners.length === 0 ? 'all ranks' : null),
  async (signal) => {
    const { top, ranks } = await getRanks('total', FEW_RANKS, signal);
    return ranks > FEW_RANKS ? [] : top.map((row): RankKey => `${row.program}:${row.rank}`).sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  },
  { live: true, keep: true },
);

/** Ranks that are shown beside the main one. */
export const partners = computed<RankKey[]>(() => {
  const chosen = view.value.partners;
  return (chosen.length > 0 ? chosen : (few.value.value ?? [])).filter((one) => one !== mainRank.value);
});

/** Ranks that are shown: all of few in their order, or the main one, its partners, and the rank of the selected call. */
export const ranks = computed<RankKey[]>(() => {
  const all = view.value.partners.length > 0 ? [] : (few.value.value ?? []);
  if (all.includes(mainRank.value)) return all;
  const shown = new Set([mainRank.value, ...partners.value, rankOf(view.value.call) ?? mainRank.value]);
  return [...shown].slice(0, MOST_PARTNERS + 1);
});

/** Width of the picture in pixels; 0 until it is laid out. */
export const width = signal(0);
const TABLE_COLUMNS = 1000;
/** Columns of the request, also for the table, which merges short calls as well; 0 while they are not known. */
const pixels = computed(() => (view.value.tables.includes('timeline') ? width.value || TABLE_COLUMNS : width.value));

const asked = signal<Asked | null>(null);
/** Number of times that recorded traces were indexed. */
const readied = signal(0);
/** Range while the picture is being moved; the address follows. */
const moving = signal<Range | null>(null);

/** Record of the selected call; null where it has none. */
export const record = computed(() => {
  const known = detail.value.value?.record;
  return isOpen.value && known !== undefined && known.id === view.value.call ? known : null;
});
const isSettled = computed(() => view.value.call === null || record.value !== null || detail.error.value !== null);

/** Times of the address, or those around the selected call that explain it best; null for all. */
const centre = computed<Range | null>(() => {
  const { window, recent_s, call } = view.value;
  const now_us = zero_us.value + (status.value?.clock_us ?? 0);
  if (recent_s !== null) return [Math.max(zero_us.value, now_us - recent_s * 1e6), now_us];
  if (window !== null) return [zero_us.value + window[0], zero_us.value + window[1]];
  if (call === null || record.value === null) return null;
  const around = timelineOf(record.value);
  const { entry_us, inclusive_us } = record.value;
  const margin = Math.max(inclusive_us, 50);
  return [Math.max(around.start, entry_us - 2 * margin), Math.min(around.end, entry_us + 3 * margin)];
});

const key = computed(() => {
  const { rank, call, selected, window, recent_s } = view.value;
  const isNamed = oneRank(rank) !== null || call !== null || selected.length > 0;
  const isKnown = view.value.partners.length > 0 || few.value.value !== null || few.error.value !== null;
  if (!isOpen.value || !isKnown || pixels.value === 0 || ((!isNamed || window !== null || recent_s !== null) && run.value.value === null)) return null;
  // The request depends on the selected call and on the width of the picture.
  if (asked.value === null && (centre.value !== null || !isSettled.value)) return null;
  return JSON.stringify([ranks.value, asked.value, readied.value]);
});

/** Answers about a run that has ended, which remain valid. */
const kept = new Map<string, RankSpans>();
const MOST_KEPT = 40;

async function read(rank: RankKey, others: readonly RankKey[], wanted: Asked | null, signal: AbortSignal): Promise<RankSpans> {
  const columns = pixels.value;
  const key = JSON.stringify([rank, others, wanted, wanted ?? columns, readied.value]);
  const known = kept.get(key);
  if (known !== undefined) return known;
  const spans = decodeTimeline(rank, await getTimeline(rank, others, wanted, columns, signal));
  const isLasting = spans.source === 'trace' || !spans.isRecorded;
  if (run.value.value?.live === false && isLasting) {
    kept.set(key, spans);
    for (const first of kept.keys()) if (kept.size > MOST_KEPT) kept.delete(first);
  }
  return spans;
}

/** Calls of all shown ranks in the requested time. */
export const found = question<RankSpans[]>(
  () => key.value,
  (signal) => {
    const [wanted, all] = [asked.value, ranks.value];
    return Promise.all(
      all.map((rank) =>
        read(
          rank,
          all.filter((one) => one !== rank),
          wanted,
          signal,
        ),
      ),
    );
  },
  { live: true, keep: true },
);

const main = computed(() => found.value.value?.find((one) => one.rank === mainRank.value) ?? null);

/** Ranks whose recorded trace exists but has not been indexed yet. */
const unready = computed(() =>
  isOpen.value ? (found.value.value ?? []).filter((one) => one.isRecorded && one.source === 'store').map((one) => one.rank) : [],
);

/** Indexing of the recorded trace; until it is done, the stored windows are shown. */
export const indexing = job<{ ranks: RankKey[] }>(
  () => unready.value.join() || null,
  () => ({ question: 'trace-index', parameters: { ranks: unready.value } }),
);
effect(() => {
  if (indexing.value.value !== null) untracked(() => readied.value++);
});

/** First and last time that can be shown: those of the whole run until the rank's own are known. */
export const extent = computed<Range>(() => main.value?.extent ?? [zero_us.value, zero_us.value + (status.value?.clock_us || 1e6)]);

const bandsKey = computed(() => (isOpen.value && key.value !== null ? ranks.value.join() : null));
/** Where the time of each rank's threads went, step by step. */
const times = question<ReadonlyMap<RankKey, StepTimes>>(
  () => bandsKey.value,
  async (signal) => {
    const all = ranks.value;
    const read = await Promise.all(all.map((rank) => get<StepTimesAnswer>(...stepTimesRequest([rank], null), signal)));
    return new Map(all.map((rank, at) => [rank, (read[at] as StepTimesAnswer).times]));
  },
  { live: true, keep: true },
);
/** Bands of each rank, for the times of which calls are not kept. */
export const bands = computed<ReadonlyMap<RankKey, RankBands>>(
  () => new Map([...(times.value.value ?? [])].map(([rank, known]) => [rank, { times: known, bands: bandsOf(known, axis.value) }])),
);

export const axis = computed(() => {
  const all = found.value.value ?? [];
  if (!view.value.folded || all.length === 0) return PLAIN_AXIS;
  const known: Interval[] = all.flatMap((one) => one.threads.flatMap((thread) => thread.known));
  return known.length === 0 ? PLAIN_AXIS : foldedAxis(known);
});

export const scene = computed(() => {
  const order = ranks.value;
  const all = [...(found.value.value ?? [])].sort((a, b) => order.indexOf(a.rank) - order.indexOf(b.rank));
  return sceneOf(
    all.filter((one) => order.includes(one.rank)),
    axis.value,
    view.value.thread,
  );
});
export const anomalies = computed(() => anomaliesOf(scene.value));
export const chosen = computed(() => spotOf(scene.value, view.value.call));

/** Greatest height of these ranks' lines so far, so that the picture keeps its height while it is moved. */
export const tallest = signal(0);
let tallestOf = '';
effect(() => {
  const [of, { height }] = [ranks.value.join(), scene.value];
  untracked(() => (tallest.value = of === tallestOf ? Math.max(tallest.value, height) : height));
  tallestOf = of;
});

/** Times at the left and right edge. */
export const shown = computed<Range>(() => moving.value ?? centre.value ?? extent.value);

/** Times for texts, which do not change with every frame. */
export const rested = computed<Range>(() => centre.value ?? extent.value);

const REST_MS = 200;
let resting: ReturnType<typeof setTimeout> | undefined;
let written = 0;

/** Show other times at once; the address follows from time to time, and when the picture has come to rest. */
export function move(to: Range): void {
  moving.value = to;
  clearTimeout(resting);
  resting = setTimeout(settle, REST_MS);
  if (performance.now() - written > REST_MS) write(to);
}

function settle(): void {
  if (moving.value !== null) write(moving.value);
  moving.value = null;
}

function write(to: Range): void {
  written = performance.now();
  go({ window: sinceZero(to), recent_s: null }, 'replace');
}

/** Times in the form of the address: whole µs since the run's start. */
export const sinceZero = ([first, last]: Range): Range => [Math.max(0, Math.floor(first - zero_us.value)), Math.max(1, Math.ceil(last - zero_us.value))];

/** Show all times. */
export const fitAll = (): void => move(extent.value);

/** Show and follow the newest times of a run that has not ended, in the present length. */
export const followNow = (): void => {
  clearTimeout(resting);
  moving.value = null;
  go({ recent_s: Math.max(1, Math.round((shown.value[1] - shown.value[0]) / 1e6)), window: null }, 'replace');
};

/** Whether dragging selects times and lines, and does not zoom. */
export const isBoxing = signal(false);

/** Selected time; null where none is. */
export const box = computed<Range | null>(() => {
  const { box: since } = view.value;
  return since === null ? null : [zero_us.value + since[0], zero_us.value + since[1]];
});

/** Lines of the selection: those of the address, or all that are shown. */
export const boxLines = computed<readonly string[]>(() => (view.value.boxLines.length > 0 ? view.value.boxLines : ranks.value));

/** Select a time of some lines, or of all that are shown; null selects none. */
export function select(times: Range | null, lines: readonly string[] = [], how: 'push' | 'replace' = 'push'): void {
  go({ box: times && sinceZero(times), boxLines: lines, window: sinceZero(shown.value), recent_s: null, rank: mainRank.value }, how);
}

/** Select the time and line of the selected call, or else all times that are shown. */
export function mark(): void {
  const spot = chosen.value;
  if (spot === null) return select(shown.value);
  const { line, at } = spot;
  select([line.row.begin[at] as number, line.row.end[at] as number], [`${line.spans.rank}/${line.row.thread}`]);
}

/** Move the end of the selection by a share of what is shown; without a selection, one begins in the middle. */
export function stretch(share: number): void {
  const by = (shown.value[1] - shown.value[0]) * share;
  const from = box.value?.[0] ?? (shown.value[0] + shown.value[1]) / 2;
  const to = Math.max(from + 1, (box.value?.[1] ?? from) + by);
  select([from, to], view.value.boxLines, box.value === null ? 'push' : 'replace');
}

/** Functions of the selected time. */
export const selection = question(
  () => (isOpen.value && box.value !== null && run.value.value !== null ? JSON.stringify([box.value, boxLines.value, readied.value]) : null),
  (signal) => getSelection(box.value as Range, boxLines.value, signal),
  { live: true, keep: true },
);

export function fitChosen(): void {
  if (box.value !== null) return move([box.value[0] - (box.value[1] - box.value[0]) * 0.05, box.value[1] + (box.value[1] - box.value[0]) * 0.05]);
  const spot = chosen.value;
  if (spot === null) return;
  const [begin, end] = [spot.line.row.begin[spot.at] as number, spot.line.row.end[spot.at] as number];
  const margin = Math.max(2, (end - begin) * 0.25);
  move([begin - margin, end + margin]);
}

/** Select a call, and bring it into the picture. */
export function choose(id: string, times: Interval | null): void {
  const next = times === null ? shown.value : showing(shown.value, ...times);
  clearTimeout(resting);
  moving.value = null;
  go({ call: id, box: null, boxLines: [], rank: mainRank.value, window: sinceZero(next), recent_s: null });
}

export function togglePartner(rank: RankKey): void {
  const beside = partners.value;
  if (rank === mainRank.value) return;
  const left = beside.includes(rank) ? beside.filter((one) => one !== rank) : [...beside, rank].slice(0, MOST_PARTNERS);
  // Removing all partners is a choice, too, where otherwise all ranks would be shown.
  const isAlone = left.length === 0 && (few.value.value ?? []).length > 1;
  go({
    partners: isAlone ? [mainRank.value] : left,
    rank: mainRank.value,
    window: sinceZero(shown.value),
  });
}

// Ask for more when the picture leaves the answer's times, or needs more detail. An answer on its way is awaited:
// while the picture is moved, each question would otherwise cancel the one before.
effect(() => {
  if (!isOpen.value || pixels.value === 0 || found.busy.value) return;
  const [range, wide, known] = [shown.value, pixels.value, main.value];
  if (known === null && centre.value === null) return;
  untracked(() => {
    const have = asked.value ?? (known && { from: known.from, to: known.to, columns: wide });
    if (have !== null && suffices(have, range, wide, known?.extent ?? [0, Infinity])) return;
    const next = askedFor(range, wide, known?.extent ?? [0, Infinity]);
    if (JSON.stringify(next) !== JSON.stringify(asked.value)) asked.value = next;
  });
});

// Another rank has other times.
effect(() => {
  void mainRank.value;
  untracked(() => {
    asked.value = null;
    moving.value = null;
  });
});

let lastCall: string | null = null;

// A call that is selected elsewhere (by the address, or as the next one of a list) is brought into the picture.
effect(() => {
  const [call, known] = [view.value.call, record.value];
  // A user who comes back to this page comes for the call.
  if (!isOpen.value) lastCall = null;
  if (!isOpen.value || known === null || call === lastCall) return;
  lastCall = call;
  untracked(() => {
    if (view.value.window === null && view.value.recent_s === null) return;
    const next = showing(shown.value, known.entry_us, known.entry_us + known.inclusive_us);
    if (next !== shown.value) move(next);
  });
});
