import { describe, expect, test } from 'vitest';
import { columnOfStep, larger, merged, placesOfRow, ranksOfRow, stepsOfColumn, UNKNOWN, type Grid } from '../../../../src/overview/heatmap/model/grid';
import type { GridUpdate } from '../../../../src/shared/api/types';

/** Five ranks of program 0 with a hole, three of program 1, two a row. */
function grid(steps_per_column: number, columns: number, cells?: number[]): Grid {
  return {
    version: 1,
    layout: 3,
    programs: [
      {
        program: 0,
        first_row: 0,
        rows: 3,
        first_place: 0,
        ranks_per_row: 2,
        ranks: [
          [0, 3],
          [8, 2],
        ],
      },
      { program: 1, first_row: 3, rows: 2, first_place: 5, ranks: [[0, 3]], ranks_per_row: 2 },
    ],
    ranks_per_row: 2,
    show: 'worst',
    nodes: [],
    rows: 5,
    first_step: 0,
    steps_per_column,
    columns,
    start_us: new Array<number>(columns).fill(0),
    silent: [],
    cells: Uint8Array.from(cells ?? new Array<number>(5 * columns).fill(UNKNOWN)),
    lost: new Uint8Array(5 * columns).fill(UNKNOWN),
  };
}

type Cell = [row: number, column: number, value: number];

function update(steps_per_column: number, columns: number, cells: Cell[], starts: [number, number][] = []): GridUpdate {
  return { layout: 3, steps_per_column, columns, cells: packed(cells), lost: packed(cells.filter(([, , value]) => value > 8)), starts };
}

function packed(cells: Cell[]): ArrayBuffer {
  const bytes = new DataView(new ArrayBuffer(4 * cells.length));
  cells.forEach(([row, column, value], at) => bytes.setUint32(4 * at, ((row << 18) | (column << 8) | value) >>> 0, true));
  return bytes.buffer;
}

const at = (of: Grid, row: number, column: number): number => of.cells[row * of.columns + column] as number;

test('cells that have grown are put where they belong, the rest stays', () => {
  const before = grid(1, 2, [0, 1, 2, 3, 4, 5, 6, 7, 8, UNKNOWN]);
  const after = merged(
    before,
    update(1, 4, [
      [4, 3, 9],
      [4, 1, 0],
      [0, 0, 254],
    ]),
  ) as Grid;
  expect(after.columns).toBe(4);
  expect([at(after, 4, 3), at(after, 4, 1), at(after, 0, 0), at(after, 3, 1)]).toEqual([9, 0, 254, 7]);
  expect(at(after, 1, 2)).toBe(UNKNOWN);
  expect([...after.lost.keys()].filter((place) => after.lost[place] !== UNKNOWN)).toEqual([0, 19]);
  expect(before.columns).toBe(2);
  expect(before.cells[0]).toBe(0);
});

test('what was read later than it was sent does not shrink', () => {
  const after = merged(
    grid(1, 1, [5, 5, 5, 5, 5]),
    update(1, 1, [
      [0, 0, 2],
      [1, 0, UNKNOWN],
    ]),
  ) as Grid;
  expect([...after.cells]).toEqual([5, 5, 5, 5, 5]);
});

test('another layout means reading again', () => {
  expect(merged(grid(1, 1), { ...update(1, 1, []), layout: 4 })).toBeNull();
});

test('columns merge by the larger cell and the earlier start, and unknown yields to zero', () => {
  const narrow = { ...grid(1, 3, [0, UNKNOWN, 7, UNKNOWN, UNKNOWN, 1, 3, 2, 1, 0, 0, 0, 9, 8, 7]), start_us: [50, 40, 60] };
  const after = merged(narrow, update(2, 2, [[0, 1, 9]], [[1, 55]])) as Grid;
  expect([after.steps_per_column, after.columns]).toEqual([2, 2]);
  expect([...after.cells]).toEqual([0, 9, UNKNOWN, 1, 3, 1, 0, 0, 9, 7]);
  expect(after.start_us).toEqual([40, 55]);
});

test('a frame from before the columns merged still counts', () => {
  const after = merged(grid(4, 1), update(1, 3, [[2, 2, 6]], [[2, 70]])) as Grid;
  expect([after.steps_per_column, after.columns, at(after, 2, 0)]).toEqual([4, 1, 6]);
  expect(after.start_us).toEqual([70]);
});

describe('in whatever order frames come, and with whatever is read between them,', () => {
  test('the grid is the one that has seen every step', () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    for (let run = 0; run < 50; run++) {
      const sent = Array.from({ length: 60 }, (): Cell => [random(5), random(32), random(6)]);
      const updates = sent.map(([row, step, value]) => {
        const width = 1 << random(3);
        return update(width, Math.floor(step / width) + 1, [[row, Math.floor(step / width), value]]);
      });
      let shown = grid(1, 0, []);
      for (const one of updates) shown = merged(shown, one) as Grid;
      shown = merged(shown, update(4, 8, [])) as Grid;
      const twin = new Array<number>(5 * 8).fill(UNKNOWN);
      for (const [row, step, value] of sent) {
        const cell = row * 8 + Math.floor(step / 4);
        twin[cell] = larger(twin[cell] as number, value);
      }
      expect([...shown.cells]).toEqual(twin);
    }
  });
});

test('rows name their ranks', () => {
  const of = grid(4, 3);
  expect([0, 1, 2, 3, 4].map((row) => ranksOfRow(of, row))).toEqual([['0:0', '0:1'], ['0:2', '0:8'], ['0:9'], ['1:0', '1:1'], ['1:2']]);
  expect(ranksOfRow(of, 9)).toEqual([]);
  expect([placesOfRow(of, 1), placesOfRow(of, 2), placesOfRow(of, 4), placesOfRow(of, 5)]).toEqual([[2, 3], [4, 4], [7, 7], null]);
});

test('columns name their steps', () => {
  const of = { ...grid(4, 3), first_step: 8 };
  expect(stepsOfColumn(of, 1)).toEqual([12, 15]);
  expect([columnOfStep(of, 12), columnOfStep(of, 15), columnOfStep(of, 16)]).toEqual([1, 1, 2]);
});
