import { describe, expect, test } from 'vitest';
import { UNKNOWN, type Grid } from '../../../../src/overview/heatmap/model/grid';
import {
  allPlaces,
  boxOf,
  cellAt,
  cellOf,
  cellSize,
  heatLayout,
  pieceOf,
  placeOfRank,
  placesOf,
  rankRangeAt,
  ranksAt,
  roomFor,
  silentRows,
  stepsOf,
  valuesOf,
  yOfRank,
  type HeatLayout,
} from '../../../../src/overview/heatmap/model/heatlayout';
import { rasterised, type HeatPalette } from '../../../../src/overview/heatmap/model/heatraster';
import { heatLines } from '../../../../src/overview/heatmap/model/heatlines';
import type { Range } from '../../../../src/shared/address/model/ranges';

/** Ranks of one program, all cells zero. */
function gridOf(ranks: number, columns: number, { perRow = 1, perColumn = 1 } = {}): Grid {
  const rows = Math.ceil(ranks / perRow);
  return {
    version: 1,
    layout: 1,
    programs: [{ program: 0, first_row: 0, rows, first_place: 0, ranks: [[0, ranks]], ranks_per_row: perRow }],
    ranks_per_row: perRow,
    show: 'worst',
    nodes: [],
    rows,
    first_step: 0,
    steps_per_column: perColumn,
    columns,
    start_us: Array.from({ length: columns }, (_, column) => 1_000_000 * (1 + column * perColumn)),
    silent: [],
    cells: new Uint8Array(rows * columns),
    lost: new Uint8Array(rows * columns),
  };
}

const put = (grid: Grid, row: number, column: number, value: number): void => {
  grid.cells[row * grid.columns + column] = value;
};
const laid = (grid: Grid, end = grid.columns * grid.steps_per_column, width = 864, height = 182): HeatLayout =>
  heatLayout(grid, [0, end], width, height, (us) => String(us));
const palette: HeatPalette = {
  values: Uint32Array.from({ length: 256 }, (_, count) => count),
  hatch: 900,
  hatchEvery: 5,
  hatchWidth: 1,
  toCome: 901,
};
const pixelsOf = (layout: HeatLayout): Uint32Array => rasterised(layout, 'anomalies', layout.right - layout.left, layout.bottom - layout.top, palette);
const tally = (pixels: Uint32Array, value: number): number => pixels.filter((pixel) => pixel === value).length;

/** Two programs: ranks 0 to 3 and 8 to 9 of the first, 0 to 2 of the second. */
function workflow(): Grid {
  const grid = gridOf(9, 4);
  grid.programs = [
    {
      program: 0,
      first_row: 0,
      rows: 6,
      first_place: 0,
      ranks_per_row: 1,
      ranks: [
        [0, 4],
        [8, 2],
      ],
    },
    { program: 3, first_row: 6, rows: 3, first_place: 6, ranks: [[0, 3]], ranks_per_row: 1 },
  ];
  return grid;
}

describe('pixels', () => {
  test('one anomaly among 10,000 ranks and 3,600 steps is at least two pixels wide and high', () => {
    for (const [row, column] of [
      [0, 0],
      [511, 899],
      [257, 431],
    ] as const) {
      const grid = gridOf(10_000, 900, { perRow: 20, perColumn: 4 });
      put(grid, Math.min(row, grid.rows - 1), column, 1);
      const layout = laid(grid, 3600);
      const pixels = pixelsOf(layout);
      const found = [...pixels.keys()].filter((at) => pixels[at] === 1);
      const width = layout.right - layout.left;
      expect(new Set(found.map((at) => at % width)).size).toBeGreaterThanOrEqual(2);
      expect(new Set(found.map((at) => Math.floor(at / width))).size).toBeGreaterThanOrEqual(2);
    }
  });

  test('every row and column that is drawn is seen', () => {
    const grid = gridOf(97, 131);
    for (let row = 0; row < 97; row++) put(grid, row, row, 3);
    const layout = laid(grid);
    const rows = new Set<number>();
    pixelsOf(layout).forEach((pixel, at) => pixel === 3 && rows.add(Math.floor(at / (layout.right - layout.left))));
    for (let row = 0; row < layout.bands.length; row++) {
      const [, y, , height] = boxOf(layout, { row, column: 0 });
      expect([...rows].filter((at) => at >= y - layout.top - 1 && at < y - layout.top + height)).not.toHaveLength(0);
    }
  });

  test('zero, unknown and still to come differ, and unknown is hatched', () => {
    const grid = gridOf(3, 10);
    put(grid, 1, 4, UNKNOWN);
    const pixels = pixelsOf(laid(grid, 16));
    expect(tally(pixels, 0)).toBeGreaterThan(0);
    expect(tally(pixels, UNKNOWN)).toBeGreaterThan(tally(pixels, 900));
    expect(tally(pixels, 900)).toBeGreaterThan(0);
    expect(tally(pixels, 901) / pixels.length).toBeCloseTo(6 / 16, 1);
  });

  test('the picture of a zoomed piece is that of its cells', () => {
    const grid = gridOf(4, 4);
    put(grid, 2, 3, 7);
    const layout = heatLayout(pieceOf(grid, [2, 3], [2, 3]), [2, 4], 864, 182, String);
    expect(tally(pixelsOf(layout), 7)).toBeGreaterThan(0.2 * 800 * 160);
  });
});

describe('cells', () => {
  test('the worst wins, and what is known over what is not', () => {
    const grid = gridOf(1000, 1);
    put(grid, 2, 0, 1);
    put(grid, 3, 0, 9);
    put(grid, 4, 0, UNKNOWN);
    const layout = laid(grid);
    expect(cellSize(layout).ranks).toBeGreaterThan(5);
    expect(valuesOf(layout, { row: 0, column: 0 })).toEqual({ count: 9, lost: 0 });
    expect([...layout.cells].some((value) => value === UNKNOWN)).toBe(false);
  });

  test('a position gives back its cell, and its cell the ranks and steps', () => {
    const layout = laid(gridOf(50, 40, { perRow: 2, perColumn: 8 }));
    for (let row = 0; row < layout.bands.length; row++) {
      for (let column = 0; column < layout.columns; column++) {
        const [x, y, width, height] = boxOf(layout, { row, column });
        expect(cellAt(layout, x + width / 2, y + height / 2)).toEqual({ row, column });
      }
    }
    expect(placesOf(layout, 3, 3)).toEqual([6, 7]);
    expect(stepsOf(layout, 5)).toEqual([40, 47]);
  });

  test('there is none beside the picture and none to come', () => {
    const layout = laid(gridOf(5, 10), 16);
    expect(cellAt(layout, layout.left - 1, 50)).toBeNull();
    expect(cellAt(layout, 50, layout.bottom)).toBeNull();
    expect(cellAt(layout, layout.right - 5, 50)).toBeNull();
    expect(cellAt(layout, layout.left, layout.top)).toEqual({ row: 0, column: 0 });
  });

  test('rows of two programs are never put together', () => {
    const grid = gridOf(400, 2);
    grid.programs = [
      { program: 0, first_row: 0, rows: 199, first_place: 0, ranks: [[0, 199]], ranks_per_row: 1 },
      { program: 1, first_row: 199, rows: 201, first_place: 199, ranks: [[0, 201]], ranks_per_row: 1 },
    ];
    const layout = laid(grid);
    for (const [first, last] of layout.bands) expect(first < 199).toBe(last < 199);
    expect(layout.bands.length * 2).toBeLessThanOrEqual(layout.bottom - layout.top);
    expect(layout.borders).toHaveLength(1);
    expect(layout.bands.at(-1)?.[1]).toBe(399);
  });
});

describe('ranks', () => {
  test('places and ranks of programs with holes', () => {
    const grid = workflow();
    expect(allPlaces(grid)).toEqual([0, 8]);
    expect(ranksAt(grid, [3, 6])).toEqual([
      { program: 0, first: 3, last: 3 },
      { program: 0, first: 8, last: 8 + 1 },
      { program: 3, first: 0, last: 0 },
    ]);
    expect([3, 4, 6].map((row) => rankRangeAt(laid(grid), row))).toEqual(['0:3', '0:8', '3:0']);
    expect(rankRangeAt(laid(gridOf(50, 4, { perRow: 4 })), 2)).toBe('0:8..11');
    expect(['0:0', '0:9', '3:2', '0:5', '7:0'].map((rank) => placeOfRank(grid, rank))).toEqual([0, 5, 8, null, null]);
  });

  test('a selected rank and a silent one stand in their rows', () => {
    const grid = workflow();
    grid.silent = [{ rank: '3:1', place: 7, function: 'MPI_Wait()', entry_us: 5, since_us: 9 }];
    const layout = laid(grid);
    const height = (layout.bottom - layout.top) / 9;
    expect(yOfRank(layout, '0:8')).toBeCloseTo(layout.top + 4.5 * height);
    expect(silentRows(layout).map((row) => row.y)).toEqual([layout.top + 7.5 * height]);
    expect(silentRows(laid(pieceOf(grid, [0, 4], null)))).toEqual([]);
  });

  test('a piece keeps places, ranks, steps and starts', () => {
    const grid = workflow();
    put(grid, 4, 2, 5);
    const piece = pieceOf(grid, [4, 6], [1, 2]);
    expect(piece.programs).toEqual([
      { program: 0, first_row: 0, rows: 2, first_place: 4, ranks: [[8, 2]], ranks_per_row: 1 },
      { program: 3, first_row: 2, rows: 1, first_place: 6, ranks: [[0, 1]], ranks_per_row: 1 },
    ]);
    expect([piece.rows, piece.columns, piece.first_step]).toEqual([3, 2, 1]);
    expect([...piece.cells]).toEqual([0, 5, 0, 0, 0, 0]);
    expect(piece.start_us).toEqual([2_000_000, 3_000_000]);
    expect(pieceOf(grid, null, null)).toEqual(grid);
  });

  test('rows that hold some ranks of the piece stay whole', () => {
    const piece = pieceOf(gridOf(50, 2, { perRow: 10 }), [15, 22], null);
    expect(piece.programs).toEqual([{ program: 0, first_row: 0, rows: 2, first_place: 10, ranks: [[10, 20]], ranks_per_row: 10 }]);
    expect(pieceOf(gridOf(45, 2, { perRow: 10 }), [41, 44], null).programs[0]?.ranks).toEqual([[40, 5]]);
  });
});

test.each([
  [0, 16],
  [1, 16],
  [60, 64],
  [1000, 1024],
  [3600, 3840],
])('a run of %d steps that goes on has room for %d', (end, room) => {
  expect(roomFor(end, true)).toEqual([0, room]);
  expect(roomFor(end, false)).toEqual([0, Math.max(1, end)]);
});

test('the table has the cells with anomalies, worst and newest first, and what is unknown in one line a gap', () => {
  const grid = gridOf(3, 8, { perColumn: 2 });
  put(grid, 0, 1, 2);
  put(grid, 0, 6, 2);
  put(grid, 2, 3, 9);
  for (const column of [2, 3, 4]) put(grid, 1, column, UNKNOWN);
  const lines = heatLines(laid(grid), 'anomalies').map(({ places, steps, count }): [Range, Range, number | null] => [places, steps, count]);
  expect(lines).toEqual([
    [[2, 2], [6, 7], 9],
    [[0, 0], [12, 13], 2],
    [[0, 0], [2, 3], 2],
    [[1, 1], [4, 9], null],
  ]);
});

test('ticks name the first and the last rank, and steps with their time', () => {
  const layout = laid(gridOf(10_000, 900, { perRow: 20, perColumn: 4 }), 3600);
  expect(layout.yTicks[0]?.text).toBe('0');
  expect(layout.yTicks.at(-1)?.text).toBe('9,999');
  expect(layout.xTicks.slice(0, 2).map((tick) => tick.text)).toEqual(['0 · 1000000', '1,000 · 1001000000']);
  expect(laid(workflow()).yTicks.map((tick) => tick.text)).toContain('3:2');
});

test('a row of several ranks is opened in place: its ranks have rows of their own, the others stay together', () => {
  const programs = [
    { program: 0, first_row: 0, rows: 2, first_place: 0, ranks: [[0, 8]], ranks_per_row: 4 },
    { program: 0, first_row: 2, rows: 4, first_place: 8, ranks: [[8, 4]], ranks_per_row: 1 },
    { program: 0, first_row: 6, rows: 1, first_place: 12, ranks: [[12, 4]], ranks_per_row: 4 },
  ] as Grid['programs'];
  const grid: Grid = { ...gridOf(7, 2), programs, ranks_per_row: 4, show: 'sum', nodes: ['a', 'b', 'c', 'c', 'c', 'c', 'd'] };
  const layout = laid(grid);
  expect(layout.bands.map((_, row) => placesOf(layout, row, row))).toEqual([
    [0, 3],
    [4, 7],
    [8, 8],
    [9, 9],
    [10, 10],
    [11, 11],
    [12, 15],
  ]);
  expect(cellOf(layout, 14, 0)?.row).toBe(6);
  const piece = pieceOf(grid, [8, 13], null);
  expect(piece.programs.map(({ first_place, ranks_per_row, rows }) => [first_place, ranks_per_row, rows])).toEqual([
    [8, 1, 4],
    [12, 4, 1],
  ]);
  expect(piece.nodes).toEqual(['c', 'c', 'c', 'c', 'd']);
  // A sum comes as a code.
  put(grid, 0, 0, 7);
  expect(valuesOf(laid(grid), { row: 0, column: 0 }).count).toBe(4);
});
