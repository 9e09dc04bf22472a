import { expect, test } from 'vitest';
import { MOST_COLUMNS, byRankOf } from '../../../src/function/model/byrank';
import type { FunctionByRank } from '../../../src/shared/api/types';

const answer = (ranks: number[], timeOf: (rank: number) => number): FunctionByRank => ({
  ok: true,
  program: 0,
  ended: ranks.length,
  ranks,
  calls: ranks.map(() => 3),
  exclusive_us: ranks.map(timeOf),
});

test('two ranks are two columns', () => {
  const found = byRankOf(answer([4, 9], (rank) => 100 * rank));
  expect(found?.width).toBe(1);
  expect(found?.columns.map((column) => [column.first, column.last, column.calls, column.median_us])).toEqual([
    [4, 4, 3, 400],
    [9, 9, 3, 900],
  ]);
  expect([found?.shortest, found?.longest, found?.shortest_us, found?.median_us, found?.p99_us, found?.longest_us]).toEqual([4, 9, 400, 650, 895, 900]);
});

test('ten thousand ranks share columns, and the longest of all keeps its place', () => {
  const ranks = Array.from({ length: 10_000 }, (_, rank) => rank);
  const found = byRankOf(answer(ranks, (rank) => (rank === 7777 ? 5000 : 1000 + (rank % 100))));
  expect([found?.columns.length, found?.width, found?.longest, found?.longest_us]).toEqual([MOST_COLUMNS, 50, 7777, 5000]);
  expect(found?.median_us).toBeCloseTo(1049.5);
  expect(found?.p99_us).toBeCloseTo(1099);
  const column = found?.columns.find(({ last }) => last >= 7777);
  expect(column).toEqual({ first: 7750, last: 7799, ranks: 50, calls: 150, shortest_us: 1050, median_us: 1074.5, longest_us: 5000, longest: 7777 });
  expect(found?.columns.reduce((sum, { ranks: own }) => sum + own, 0)).toBe(10_000);
});

test('one more rank than columns leaves no column empty', () => {
  const ranks = Array.from({ length: MOST_COLUMNS + 1 }, (_, rank) => rank);
  const found = byRankOf(answer(ranks, (rank) => rank));
  expect([found?.columns.length, found?.columns.at(-1)?.ranks]).toEqual([101, 1]);
});

test('a function that no ended rank called has no columns', () => {
  expect(byRankOf(answer([], () => 0))).toBeNull();
});
