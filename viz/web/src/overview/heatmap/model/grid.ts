/**
 * Grid of all ranks and steps, as the heat map shows it: two bytes per cell.
 *
 * A row stands for consecutive ranks of one program, a column for consecutive steps. A cell has the largest number of
 * anomalies, and the most time lost, of one of these ranks in one of these steps. Cells only grow, from unknown over 0
 * upwards, so answers and live updates may be merged in any order, and more than once.
 */

import type { Measure } from '../../../shared/address/model/view';
import type { GridAnswer, GridProgram, GridUpdate, RankKey } from '../../../shared/api/types';

/** Values of the cells, row by row: anomalies, and the code of the time lost. */
export type Layers = Record<'cells' | 'lost', Uint8Array>;
export type Grid = Omit<GridAnswer, 'ok' | keyof Layers> & Layers;

/** Layer of a measure. */
export const layerOf = (layers: Layers, measure: Measure): Uint8Array => (measure === 'lost' ? layers.lost : layers.cells);

/** Value of a cell in which no step was analysed. */
export const UNKNOWN = 255;
/** Largest number in a cell, which also stands for all larger ones. */
export const MOST = 254;

/** Return the grid with an update; null where it has to be read again. The given grid is not changed. */
export function merged(grid: Grid, update: GridUpdate): Grid | null {
  if (update.layout !== grid.layout) return null;
  // An answer that is newer than the frame may have wider columns already.
  const steps_per_column = Math.max(grid.steps_per_column, update.steps_per_column);
  const columns = Math.max(
    Math.ceil((grid.columns * grid.steps_per_column) / steps_per_column),
    Math.ceil((update.columns * update.steps_per_column) / steps_per_column),
  );
  const wide = { steps_per_column, columns };
  const cells = grown(widened(grid, grid.cells, wide), update.cells, update, wide);
  const lost = grown(widened(grid, grid.lost, wide), update.lost, update, wide);
  const start_us = startsBy(grid, steps_per_column, columns);
  const wider = steps_per_column / update.steps_per_column;
  for (const [column, start] of update.starts) {
    const at = Math.floor(column / wider);
    start_us[at] = earlier(start_us[at] as number, start);
  }
  return { ...grid, steps_per_column, columns, start_us, cells, lost };
}

type Columns = Pick<Grid, 'steps_per_column' | 'columns'>;

/** Put the cells of an update into a layer. */
function grown(cells: Uint8Array, packed: ArrayBuffer, update: GridUpdate, { steps_per_column, columns }: Columns): Uint8Array {
  const wider = steps_per_column / update.steps_per_column;
  for (const one of packedCells(packed)) {
    const at = (one >>> 18) * columns + Math.floor(((one >>> 8) & 0x3ff) / wider);
    cells[at] = larger(cells[at] as number, one & 0xff);
  }
  return cells;
}

/** The larger value of two cells, where unknown is less than 0. */
export const larger = (one: number, other: number): number => (one === UNKNOWN ? other : other === UNKNOWN ? one : Math.max(one, other));

const earlier = (one: number, other: number): number => (one === 0 ? other : other === 0 ? one : Math.min(one, other));

/** A layer with wider columns, and room for more of them. */
function widened(grid: Grid, layer: Uint8Array, { steps_per_column, columns }: Columns): Uint8Array {
  const cells = new Uint8Array(grid.rows * columns).fill(UNKNOWN);
  const wider = steps_per_column / grid.steps_per_column;
  for (let row = 0; row < grid.rows; row++) {
    const [from, to] = [row * grid.columns, row * columns];
    if (wider === 1) {
      cells.set(layer.subarray(from, from + grid.columns), to);
      continue;
    }
    for (let column = 0; column < grid.columns; column++) {
      const at = to + Math.floor(column / wider);
      cells[at] = larger(cells[at] as number, layer[from + column] as number);
    }
  }
  return cells;
}

function startsBy(grid: Grid, steps_per_column: number, columns: number): number[] {
  const starts = new Array<number>(columns).fill(0);
  const wider = steps_per_column / grid.steps_per_column;
  grid.start_us.forEach((start, column) => {
    const at = Math.floor(column / wider);
    starts[at] = earlier(starts[at] as number, start);
  });
  return starts;
}

function* packedCells(cells: ArrayBuffer): Generator<number> {
  const view = new DataView(cells);
  for (let at = 0; at < cells.byteLength; at += 4) yield view.getUint32(at, true);
}

/** Ranks of a row, in order. */
export function ranksOfRow(grid: Grid, row: number): RankKey[] {
  const of = programOfRow(grid, row);
  if (of === undefined) return [];
  let skip = (row - of.first_row) * of.ranks_per_row;
  const ranks: RankKey[] = [];
  for (const [first, count] of of.ranks) {
    for (let at = skip; at < count && ranks.length < of.ranks_per_row; at++) ranks.push(`${of.program}:${first + at}`);
    skip = Math.max(0, skip - count);
  }
  return ranks;
}

/** Places of the first and last rank of a row, for the request of a finer piece. */
export function placesOfRow(grid: Grid, row: number): [first: number, last: number] | null {
  const of = programOfRow(grid, row);
  if (of === undefined) return null;
  const ranks = of.ranks.reduce((sum, [, count]) => sum + count, 0);
  const first = (row - of.first_row) * of.ranks_per_row;
  return [of.first_place + first, of.first_place + Math.min(ranks, first + of.ranks_per_row) - 1];
}

/** First and last step of a column. */
export function stepsOfColumn(grid: Grid, column: number): [first: number, last: number] {
  const first = grid.first_step + column * grid.steps_per_column;
  return [first, first + grid.steps_per_column - 1];
}

/** Column of a step, even where the grid does not reach that far. */
export const columnOfStep = (grid: Grid, step: number): number => Math.floor((step - grid.first_step) / grid.steps_per_column);

function programOfRow(grid: Grid, row: number): GridProgram | undefined {
  return grid.programs.find((one) => row >= one.first_row && row < one.first_row + one.rows);
}
