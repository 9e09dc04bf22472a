/**
 * Layout of the heat map's cells. Lengths in CSS pixels.
 *
 * The grid may have more rows and columns than the picture has room for: as many as needed are merged, and a cell
 * shows the worst of them, so that one anomaly among 10,000 ranks and 3,600 steps is seen.
 */

import { exact } from '../../../shared/units/units';
import { lostOfCode } from './bins';
import { columnOfStep, stepsOfColumn, UNKNOWN, type Grid, type Layers } from './grid';
import { formatRankRange, type Range, type RankRange } from '../../../shared/address/model/ranges';
import type { GridProgram, RankKey, SilentRank } from '../../../shared/api/types';
import { wholeTicks } from '../../../shared/charts/model/ticks';

/** Least size of a cell: single pixels are overlooked. */
const CELL_PX = 2;
const MARGIN = { left: 44, right: 20, top: 4, axis: 18 };
/** Distance between the numbers of ranks. */
const TICK_PX = 14;

/** Consecutive ranks of one program. */
export interface RankSpan {
  program: number;
  first: number;
  last: number;
}

export interface HeatLayout extends Layers {
  grid: Grid;
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
  /** First step shown, and the step after the last one. */
  steps: Range;
  /** First and last row of the grid in each drawn row. */
  bands: Range[];
  /** Columns of the grid in each drawn column. */
  span: number;
  columns: number;
  xTicks: { x: number; text: string }[];
  yTicks: { y: number; text: string }[];
  /** Positions of the lines between programs. */
  borders: number[];
}

/** A drawn cell. */
export interface Cell {
  row: number;
  column: number;
}

/** Lay out a grid for the steps from `steps[0]` to before `steps[1]`; future steps have no cells yet. */
export function heatLayout(grid: Grid, steps: Range, width: number, height: number, clockOf: (us: number) => string): HeatLayout {
  const frame = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.axis };
  const bands = bandsOf(grid, Math.max(1, Math.floor((frame.bottom - frame.top) / CELL_PX)));
  const wanted = Math.ceil((steps[1] - steps[0]) / grid.steps_per_column);
  const span = Math.max(1, Math.ceil(wanted / Math.max(1, Math.floor((frame.right - frame.left) / CELL_PX))));
  const columns = Math.ceil(grid.columns / span);
  const layout: HeatLayout = {
    grid,
    width,
    height,
    ...frame,
    steps,
    bands,
    span,
    columns,
    cells: worst(grid.columns, grid.cells, bands, span, columns),
    lost: worst(grid.columns, grid.lost, bands, span, columns),
    xTicks: [],
    yTicks: [],
    borders: [],
  };
  layout.xTicks = xTicks(layout, clockOf);
  layout.yTicks = yTicks(layout);
  layout.borders = bands.flatMap(([row], band) => (band > 0 && grid.programs.some((one) => one.first_row === row) ? [yOf(layout, band)] : []));
  return layout;
}

/** Rows of the grid in each drawn row, merged evenly within each program. */
function bandsOf(grid: Grid, room: number): Range[] {
  let together = Math.max(1, Math.ceil(grid.rows / room));
  let bands: Range[];
  do {
    bands = grid.programs.flatMap(({ first_row, rows }) =>
      Array.from({ length: Math.ceil(rows / together) }, (_, at): Range => {
        const first = first_row + at * together;
        return [first, Math.min(first + together, first_row + rows) - 1];
      }),
    );
    together++;
  } while (bands.length > room && bands.length > grid.programs.length);
  return bands;
}

function worst(width: number, layer: Uint8Array, bands: readonly Range[], span: number, columns: number): Uint8Array {
  const cells = new Uint8Array(bands.length * columns).fill(UNKNOWN);
  bands.forEach(([first, last], band) => {
    for (let row = first; row <= last; row++) {
      const end = (row + 1) * width;
      let from = row * width;
      for (let at = band * columns; from < end; at++) {
        const stop = Math.min(from + span, end);
        // Adding one to a byte makes unknown 0, below all counts. This takes a millisecond for half a million cells.
        let most = ((cells[at] as number) + 1) & 255;
        for (; from < stop; from++) {
          const count = ((layer[from] as number) + 1) & 255;
          if (count > most) most = count;
        }
        cells[at] = most - 1;
      }
    }
  });
  return cells;
}

export function xOfStep({ left, right, steps }: Pick<HeatLayout, 'left' | 'right' | 'steps'>, step: number): number {
  return left + ((step - steps[0]) / (steps[1] - steps[0])) * (right - left);
}

function yOf({ top, bottom, bands }: HeatLayout, band: number): number {
  return top + (band / Math.max(1, bands.length)) * (bottom - top);
}

export function stepAtX({ left, right, steps }: HeatLayout, x: number): number {
  const step = Math.floor(steps[0] + ((x - left) / (right - left)) * (steps[1] - steps[0]));
  return Math.min(steps[1] - 1, Math.max(steps[0], step));
}

function bandAtY({ top, bottom, bands }: HeatLayout, y: number): number {
  return Math.min(bands.length - 1, Math.max(0, Math.floor(((y - top) / (bottom - top)) * bands.length)));
}

/** Cell at a position; null outside the cells, and where steps have not come yet. */
export function cellAt(layout: HeatLayout, x: number, y: number): Cell | null {
  if (x < layout.left || x >= layout.right || y < layout.top || y >= layout.bottom || layout.bands.length === 0) return null;
  const column = columnDrawn(layout, stepAtX(layout, x));
  return column < 0 || column >= layout.columns ? null : { row: bandAtY(layout, y), column };
}

/** Cell of a rank's place and a step; null where it is not shown. */
export function cellOf(layout: HeatLayout, place: number, step: number): Cell | null {
  const row = bandOfPlace(layout, place);
  const column = columnDrawn(layout, step);
  return row === null || column < 0 || column >= layout.columns ? null : { row, column };
}

/** Ranks and steps between two cells, both included. */
export function areaOf(layout: HeatLayout, one: Cell, other: Cell): { ranks: Range; steps: Range } {
  const [top, bottom] = [Math.min(one.row, other.row), Math.max(one.row, other.row)];
  const [left, right] = [Math.min(one.column, other.column), Math.max(one.column, other.column)];
  return { ranks: placesOf(layout, top, bottom), steps: [stepsOf(layout, left)[0], stepsOf(layout, right)[1]] };
}

/** Cell nearest to a position, also from outside the cells. */
export function nearestCell(layout: HeatLayout, x: number, y: number): Cell {
  const column = columnDrawn(layout, stepAtX(layout, x));
  return { row: bandAtY(layout, y), column: Math.min(layout.columns - 1, Math.max(0, column)) };
}

export const columnDrawn = ({ grid, span }: HeatLayout, step: number): number => Math.floor(columnOfStep(grid, step) / span);

/** Nodes of a drawn row, where rows are of whole nodes; else empty. */
export const nodesOf = ({ grid, bands }: HeatLayout, row: number): string => grid.nodes[bands[row]?.[0] ?? 0] ?? '';

/** Row at a height, to the left of the cells; null elsewhere. */
export function labelAt(layout: HeatLayout, x: number, y: number): number | null {
  return x < layout.left && y >= layout.top && y < layout.bottom && layout.bands.length > 0 ? bandAtY(layout, y) : null;
}

/** Left, top, width and height of a cell, as far as it is shown. */
export function boxOf(layout: HeatLayout, { row, column }: Cell): [x: number, y: number, width: number, height: number] {
  const [first, last] = stepsOf(layout, column);
  const x0 = Math.max(layout.left, xOfStep(layout, first));
  const x1 = Math.min(layout.right, xOfStep(layout, last + 1));
  return [x0, yOf(layout, row), x1 - x0, yOf(layout, row + 1) - yOf(layout, row)];
}

/** Anomalies of a cell, and the code of the time lost. */
export function valuesOf({ grid, cells, lost, columns }: HeatLayout, { row, column }: Cell): { count: number; lost: number } {
  const at = row * columns + column;
  const count = cells[at] as number;
  // A sum comes as a code, none of which stands for the number of unknown.
  return { count: grid.show === 'sum' && count !== UNKNOWN ? Math.round(lostOfCode(count)) : count, lost: lost[at] as number };
}

/** First and last step of a drawn column. */
export function stepsOf({ grid, span }: HeatLayout, column: number): Range {
  const [first] = stepsOfColumn(grid, column * span);
  return [first, first + span * grid.steps_per_column - 1];
}

/** Start of the first analysed step of a drawn column, in µs since the epoch; 0 where none is known. */
export function startOf({ grid, span }: HeatLayout, column: number): number {
  return grid.start_us.slice(column * span, (column + 1) * span).find((start) => start > 0) ?? 0;
}

/** Places of the ranks of some drawn rows, for a request to the server. */
export function placesOf({ grid, bands }: HeatLayout, firstBand: number, lastBand: number): Range {
  const [first] = rowPlaces(grid, bands[firstBand]?.[0] ?? 0);
  const [, last] = rowPlaces(grid, bands[lastBand]?.[1] ?? 0);
  return [first, last];
}

function rowPlaces(grid: Grid, row: number): Range {
  const of = programOf(grid, row);
  const first = of.first_place + (row - of.first_row) * of.ranks_per_row;
  return [first, Math.min(first + of.ranks_per_row, of.first_place + ranksOf(of)) - 1];
}

const programOf = (grid: Grid, row: number): GridProgram => grid.programs.find((one) => row >= one.first_row && row < one.first_row + one.rows) as GridProgram;

const ranksOf = ({ ranks }: GridProgram): number => ranks.reduce((sum, [, count]) => sum + count, 0);

/** Ranks at some places, as runs of consecutive ones. */
export function ranksAt(grid: Grid, [first, last]: Range): RankSpan[] {
  return grid.programs.flatMap(({ program, first_place, ranks }) => {
    let place = first_place;
    return ranks.flatMap(([number, count]) => {
      const [from, to] = [Math.max(first, place), Math.min(last, place + count - 1)];
      const found = from <= to ? [{ program, first: number + from - place, last: number + to - place }] : [];
      place += count;
      return found;
    });
  });
}

/** Range of the ranks of a drawn row. */
export function rankRangeAt(layout: HeatLayout, row: number): RankRange {
  const spans = ranksAt(layout.grid, placesOf(layout, row, row));
  const [first, last] = [spans[0] as RankSpan, spans[spans.length - 1] as RankSpan];
  return formatRankRange(first.program, [first.first, last.last]);
}

/** Places of all ranks in a grid; null where it has none. */
export function allPlaces(grid: Grid): Range | null {
  const last = grid.programs[grid.programs.length - 1];
  return last === undefined ? null : [(grid.programs[0] as GridProgram).first_place, last.first_place + ranksOf(last) - 1];
}

/** Place of a rank; null where it is not in the grid. */
export function placeOfRank(grid: Grid, rank: RankKey): number | null {
  const [program, number] = rank.split(':').map(Number) as [number, number];
  for (const of of grid.programs.filter((one) => one.program === program)) {
    let place = of.first_place;
    for (const [first, count] of of.ranks) {
      if (number >= first && number < first + count) return place + number - first;
      place += count;
    }
  }
  return null;
}

/** Drawn row of a place; null where it is not shown. */
function bandOfPlace({ grid, bands }: HeatLayout, place: number): number | null {
  const of = grid.programs.find((one) => place >= one.first_place && place < one.first_place + ranksOf(one));
  if (of === undefined) return null;
  const row = of.first_row + Math.floor((place - of.first_place) / of.ranks_per_row);
  const band = bands.findIndex(([first, last]) => row >= first && row <= last);
  return band < 0 ? null : band;
}

/** Middle of the drawn row of a rank; null where it is not shown. */
export function yOfRank(layout: HeatLayout, rank: RankKey): number | null {
  const place = placeOfRank(layout.grid, rank);
  const band = place === null ? null : bandOfPlace(layout, place);
  return band === null ? null : yOf(layout, band + 0.5);
}

/** Silent ranks that are shown, by drawn row. */
export function silentRows(layout: HeatLayout): { y: number; ranks: SilentRank[] }[] {
  const rows = new Map<number, SilentRank[]>();
  for (const silent of layout.grid.silent) {
    const band = bandOfPlace(layout, silent.place);
    if (band !== null) rows.set(band, [...(rows.get(band) ?? []), silent]);
  }
  return [...rows].map(([band, ranks]) => ({ y: yOf(layout, band + 0.5), ranks }));
}

/** Greatest number of ranks in a drawn row, and number of steps in a drawn column. */
export function cellSize({ grid, bands, span }: HeatLayout): { ranks: number; steps: number } {
  const rows = bands.reduce((most, [first, last]) => Math.max(most, last - first + 1), 1);
  return { ranks: rows * grid.ranks_per_row, steps: span * grid.steps_per_column };
}

/** Steps from the run's start to its end; a run that has not ended has some room, so that the picture does not move with each step. */
export function roomFor(end: number, goesOn: boolean): Range {
  if (!goesOn) return [0, Math.max(1, end)];
  const quantum = Math.max(16, 2 ** (Math.floor(Math.log2(Math.max(1, end))) - 3));
  return [0, quantum * Math.max(1, Math.ceil(end / quantum))];
}

/** Piece of a grid; cells that reach over its edge are kept whole. */
export function pieceOf(grid: Grid, places: Range | null, steps: Range | null): Grid {
  const firstColumn = steps === null ? 0 : clamped(columnOfStep(grid, steps[0]), 0, grid.columns);
  const endColumn = steps === null ? grid.columns : clamped(columnOfStep(grid, steps[1]) + 1, firstColumn, grid.columns);
  const columns = endColumn - firstColumn;
  const kept: number[] = [];
  const programs = grid.programs.flatMap((of) => {
    const total = ranksOf(of);
    const [from, to] = places === null ? [0, total - 1] : [Math.max(0, places[0] - of.first_place), Math.min(total - 1, places[1] - of.first_place)];
    if (from > to) return [];
    const [firstRow, lastRow] = [Math.floor(from / of.ranks_per_row), Math.floor(to / of.ranks_per_row)];
    const skipped = firstRow * of.ranks_per_row;
    const ranks = Math.min(total, (lastRow + 1) * of.ranks_per_row) - skipped;
    const first_row = kept.length;
    for (let row = firstRow; row <= lastRow; row++) kept.push(of.first_row + row);
    const first_place = of.first_place + skipped;
    const spans = ranksAt({ ...grid, programs: [of] }, [first_place, first_place + ranks - 1]);
    return [
      {
        program: of.program,
        ranks_per_row: of.ranks_per_row,
        first_row,
        rows: kept.length - first_row,
        first_place,
        ranks: spans.map(({ first, last }): [number, number] => [first, last - first + 1]),
      },
    ];
  });
  const cut = (layer: Uint8Array): Uint8Array => {
    const cells = new Uint8Array(kept.length * columns);
    kept.forEach((row, at) => cells.set(layer.subarray(row * grid.columns + firstColumn, row * grid.columns + endColumn), at * columns));
    return cells;
  };
  return {
    ...grid,
    programs,
    rows: kept.length,
    nodes: grid.nodes.length === 0 ? [] : kept.map((row) => grid.nodes[row] as string),
    first_step: grid.first_step + firstColumn * grid.steps_per_column,
    columns,
    start_us: grid.start_us.slice(firstColumn, endColumn),
    cells: cut(grid.cells),
    lost: cut(grid.lost),
  };
}

const clamped = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value));

function xTicks(layout: HeatLayout, clockOf: (us: number) => string): { x: number; text: string }[] {
  const { steps, left, right, grid } = layout;
  const found = wholeTicks(steps[0], steps[1] - 1, Math.max(2, Math.floor((right - left) / 150)));
  let newest = 0;
  return found.map((step) => {
    const known_us = timeOfStep(grid, step);
    // A rank that began a step late, or early, must not make time go backwards.
    const start = known_us !== null && known_us >= newest ? known_us : null;
    newest = start ?? newest;
    const name = exact(step);
    return { x: xOfStep(layout, step), text: start === null ? name : `${name} · ${clockOf(start)}` };
  });
}

/** Approximate start of a step, between the starts of its column and the next; null where it is not known. */
function timeOfStep(grid: Grid, step: number): number | null {
  const column = columnOfStep(grid, step);
  const [start, next] = [grid.start_us[column] ?? 0, grid.start_us[column + 1] ?? 0];
  if (start === 0) return null;
  const share = (step - stepsOfColumn(grid, column)[0]) / grid.steps_per_column;
  if (share > 0 && next === 0) return null;
  return share === 0 ? start : start + share * (next - start);
}

function yTicks(layout: HeatLayout): { y: number; text: string }[] {
  const places = allPlaces(layout.grid);
  if (places === null) return [];
  // Few ranks all have their numbers; of many ranks, some have.
  const isEach = (layout.bottom - layout.top) / (places[1] - places[0] + 1) >= TICK_PX;
  const room = isEach ? places[1] - places[0] + 1 : Math.max(1, Math.floor((layout.bottom - layout.top) / 36));
  const several = new Set(layout.grid.programs.map((one) => one.program)).size > 1;
  const found = [...new Set([places[0], ...wholeTicks(places[0], places[1], room), places[1]])].flatMap((place) => {
    const band = bandOfPlace(layout, place);
    const [span] = ranksAt(layout.grid, [place, place]);
    if (band === null || span === undefined) return [];
    return [{ y: yOf(layout, band + 0.5), text: several ? `${span.program}:${span.first}` : exact(span.first) }];
  });
  // The last rank has a label, which shows how many there are: labels that are too near above it are dropped.
  const last = found[found.length - 1];
  return found.filter((tick, at) => at === 0 || tick === last || (last !== undefined && last.y - tick.y >= TICK_PX && tick.y - (found[0]?.y ?? 0) >= TICK_PX));
}
