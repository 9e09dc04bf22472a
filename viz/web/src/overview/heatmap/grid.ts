/** Grid of all ranks and steps: the whole, as read and updated since, and the piece that is shown. */

import { computed, effect, signal, untracked } from '@preact/signals';
import { binsOf, largestOf } from './model/bins';
import type { Shown } from '../../shared/address/model/view';
import { layerOf, merged, placesOfRow, ranksOfRow, stepsOfColumn, UNKNOWN, type Grid } from './model/grid';
import { allPlaces, pieceOf, roomFor } from './model/heatlayout';
import { ALL, moved, shownOf, windowOn, windowOnNow } from './model/window';
import type { Range } from '../../shared/address/model/ranges';
import { getGrid, gridRequest, type GridPiece } from './requests';
import { go, view } from '../../shared/address/address';
import { question } from '../../shared/session/question';
import { Resource } from '../../shared/session/resource';
import * as session from '../../shared/session/session';
import type { GridUpdate, RankKey } from '../../shared/api/types';

/** Least time between two readings: while ranks join, the grid changes its layout with each frame. */
const READ_AGAIN_MS = 1000;

const isOpen = computed(() => view.value.page === 'overview');

/** Grid as the server sends it; `whole` is the one that is shown, which does not change while paused. */
export const reading = new Resource<Grid>();
const latest = signal<Grid | null>(null);
const whole = signal<Grid | null>(null);
let early: GridUpdate[] = [];
let again: ReturnType<typeof setTimeout> | undefined;

effect(() => {
  if (isOpen.value) untracked(() => void read());
});
effect(() => {
  const now = latest.value;
  if (!session.paused.value || untracked(() => whole.value === null)) whole.value = now;
});
session.follow({
  onFrame(frame) {
    if (!isOpen.value) return;
    if (frame.resync) readSoon();
    else if (frame.grid !== null) add(frame.grid);
  },
  onLinked() {
    // The answer on its way may lack what was sent before the connection was made; a run that has ended does not change.
    if (isOpen.value && session.status.value?.state !== 'ended') readSoon();
  },
});

function read(): Promise<void> {
  early = [];
  return reading.load(async (signal) => {
    const grid = await getGrid(signal);
    latest.value = grid;
    // The answer may lack what was sent while it was on its way.
    for (const update of early.splice(0)) add(update);
    return grid;
  });
}

function readSoon(): void {
  again ??= setTimeout(() => {
    again = undefined;
    void read();
  }, READ_AGAIN_MS);
}

function add(update: GridUpdate): void {
  if (reading.busy.value) early.push(update);
  if (latest.value === null) return;
  const grid = merged(latest.value, update);
  if (grid === null) readSoon();
  else latest.value = grid;
}

/** Number of steps so far. */
export const end = computed(() => (session.status.value?.last_step ?? -1) + 1);

let grown_ms = Date.now();
effect(() => {
  void end.value;
  grown_ms = Date.now();
});
/** Steps that should have arrived since the newest one, at the run's pace so far; 0 unless the run is stale. */
export const stepsMissed = computed(() => {
  const now = session.status.value;
  if (now?.state !== 'stale' || now.clock_us === 0) return 0;
  return Math.floor((1000 * (Date.now() - grown_ms)) / (now.clock_us / end.value));
});

/** First and last step that charts show; null for the whole run. */
export const shownSteps = computed(() => shownOf(view.value, end.value));
const goesOn = (): boolean => session.status.value !== null && session.status.value.state !== 'ended';

/** Steps for which the heat map has room, the end not included. */
export const room = computed<Range>(() => {
  const steps = shownSteps.value;
  if (steps !== null) return [steps[0], steps[1] + 1];
  return roomFor(end.value, goesOn());
});

/** Show some steps; panning and zooming do this often, and need no entries in the browser's history. */
export function showSteps(steps: Range | null, how: 'push' | 'replace' = 'replace'): void {
  go(steps === null ? ALL : windowOn(steps, end.value, goesOn()), how);
}

/** Show as many steps as these, moved to later ones, or to earlier ones if negative. */
export function moveSteps(steps: Range, by: number): void {
  showSteps(moved(steps, by, [0, end.value - 1]));
}

const allRanks = computed<Range | null>(() => whole.value && allPlaces(whole.value));

/** Show some ranks, by place in the order of ranks; null where these are all. */
export function showRanks(ranks: Range | null, how: 'push' | 'replace' = 'replace'): void {
  go({ ranks: cut(ranks) }, how);
}

/** Show as many ranks as these, moved down. */
export function moveRanks(ranks: Range, by: number): void {
  if (allRanks.value !== null) showRanks(moved(ranks, by, allRanks.value));
}

/** Clip a range to the ranks that exist; null where these are all. */
function cut(ranks: Range | null): Range | null {
  const all = allRanks.value;
  if (ranks === null || all === null) return ranks;
  const [first, last] = [Math.max(all[0], Math.min(ranks[0], all[1])), Math.min(all[1], Math.max(ranks[1], all[0]))];
  return first === all[0] && last === all[1] ? null : [first, last];
}

export function showNow(): void {
  go(windowOnNow(shownSteps.value));
}

/** Rows of groups, 4 px high where the map is lowest. */
const GROUPS = 56;
/** Columns of groups: as many as the map has room for, since each has to be summed. */
const GROUP_COLUMNS = 512;

/** What rows show of their ranks: where the map has too many ranks for rows of their own, the worst of a group would say little. */
export const rowsShow = computed<Shown>(() => view.value.rows ?? ((whole.value?.ranks_per_row ?? 1) > 1 ? 'sum' : 'worst'));

/** Open the row of some ranks in place, or close what is open where they are part of it. */
export function openRow(places: Range): void {
  const { open } = view.value;
  if (open !== null && holds(open, places) && (places[0] === places[1] || !holds(places, open))) return go({ open: null });
  if (places[1] > places[0]) go({ open: places });
}

interface Wanted extends GridPiece {
  ranks: Range;
  steps: Range;
  show: Shown;
}

/** Piece to ask for, where the whole grid is too coarse. */
const wanted = computed<Wanted | null>(() => {
  const grid = whole.value;
  const all = allRanks.value;
  if (!isOpen.value || grid === null || all === null || end.value === 0) return null;
  const ranks = cut(view.value.ranks);
  const steps = shownSteps.value;
  const isCoarse = (ranks !== null && grid.ranks_per_row > 1) || (steps !== null && grid.steps_per_column > 1);
  const { open } = view.value;
  const show = rowsShow.value;
  const isGrouped = show !== 'worst' || open !== null;
  if (!isCoarse && !isGrouped) return null;
  return {
    ranks: ranks ?? all,
    steps: steps === null ? [0, end.value - 1] : padded(steps),
    show,
    ...(isGrouped ? { rows: GROUPS, columns: GROUP_COLUMNS } : {}),
    ...(open === null ? {} : { open }),
  };
});

/** Range with some more steps, so that following the newest ones need not ask at every step. */
function padded([first, last]: Range): Range {
  const quantum = 2 ** Math.max(0, Math.floor(Math.log2((last - first + 1) / 4)));
  return [Math.floor(first / quantum) * quantum, Math.ceil((last + 1) / quantum) * quantum - 1];
}

// A text, because each frame makes a new `wanted` that asks for the same piece.
const wantedKey = computed(() => (wanted.value === null ? null : JSON.stringify(wanted.value)));

export const finer = question(
  () => wantedKey.value,
  async (signal) => {
    const asked = wanted.peek() as Wanted;
    return { asked, grid: await getGrid(signal, asked) };
  },
  { live: true, keep: true },
);

const holds = (outer: Range, inner: Range): boolean => outer[0] <= inner[0] && outer[1] >= inner[1];

/** Grid that the heat map shows: the finer piece as soon as it has arrived, the coarse one until then. */
export const grid = computed<Grid | null>(() => {
  if (whole.value === null) return null;
  const piece = finer.value.value;
  const now = wanted.value;
  const isHere = now !== null && piece !== null && piece.asked.show === now.show && holds(piece.asked.ranks, now.ranks) && holds(piece.asked.steps, now.steps);
  // Another quantity must not be shown in its place.
  if (now !== null && now.show !== 'worst' && !isHere && finer.error.value === null) return null;
  return pieceOf(isHere ? piece.grid : whole.value, cut(view.value.ranks), shownSteps.value);
});

const size = ([first, last]: Range): number => last - first + 1;

/** Request to the API for what is shown. */
export const gridAsked = computed(() => {
  const ranks = cut(view.value.ranks);
  const steps = shownSteps.value;
  const groups = rowsShow.value === 'worst' ? {} : { rows: GROUPS, show: rowsShow.value };
  return gridRequest({ ...(ranks === null ? {} : { ranks }), ...(steps === null ? {} : { steps }), ...groups });
});

/** Bins of colours, by the largest value of the whole map: zooming does not change colours. Those of groups are by what is shown: groups have other sums than their parts. */
export const bins = computed(() => {
  const { measure } = view.value;
  const shown = grid.value;
  if (shown !== null && shown.show !== 'worst') return binsOf(measure, largestOf(layerOf(shown, measure)), shown.show === 'sum');
  return binsOf(measure, whole.value === null ? 0 : largestOf(layerOf(whole.value, measure)));
});

export interface Worst {
  rank: RankKey;
  step: number;
  count: number;
}

/** Find the worst rank and step within ranges, by the measure that is shown; null where none was analysed. */
export async function worstOf(ranks: Range, steps: Range, signal: AbortSignal): Promise<Worst | null> {
  const piece = await getGrid(signal, { ranks, steps });
  const cells = layerOf(piece, view.value.measure);
  let most = -1;
  for (const [at, value] of cells.entries()) {
    if (value !== UNKNOWN && (most < 0 || value > (cells[most] as number))) most = at;
  }
  if (most < 0) return null;
  const [row, column] = [Math.floor(most / piece.columns), most % piece.columns];
  const narrower = [placesOfRow(piece, row) as Range, stepsOfColumn(piece, column)] as const;
  if (size(narrower[0]) * size(narrower[1]) < size(ranks) * size(steps)) return worstOf(...narrower, signal);
  return { rank: ranksOfRow(piece, row)[0] as RankKey, step: stepsOfColumn(piece, column)[0], count: piece.cells[most] as number };
}
