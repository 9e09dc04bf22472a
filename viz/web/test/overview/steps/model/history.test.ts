import { describe, expect, test } from 'vitest';
import { gaps, lowerBound, merge, rowsOf, total, wholeFrom, type History } from '../../../../src/overview/steps/model/history';
import type { StepRow } from '../../../../src/shared/api/types';

const row = (step: number, anomalies = 0): StepRow => [step, step * 1e6, (step + 1) * 1e6, 100, anomalies, anomalies * 5];

/** Small, seeded, and good enough to shuffle with. */
function shuffled<T>(values: readonly T[], seed: number): T[] {
  const result = [...values];
  for (let at = result.length - 1; at > 0; at--) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    const other = seed % (at + 1);
    [result[at], result[other]] = [result[other] as T, result[at] as T];
  }
  return result;
}

test('steps come out in order and once, in whatever order and pieces they arrive', () => {
  const all = Array.from({ length: 200 }, (_, step) => row(step, step % 3));
  for (let seed = 1; seed <= 20; seed++) {
    const order = shuffled([...all, ...all.slice(50, 90)], seed);
    let history: History = [];
    for (let at = 0; at < order.length; at += 17) history = merge(history, order.slice(at, at + 17));
    expect(history).toEqual(all);
  }
});

test('nothing new leaves the same array', () => {
  const history = merge([], [row(0)]);
  expect(merge(history, [])).toBe(history);
});

test('a step sent again replaces the older one', () => {
  expect(merge(merge([], [row(1), row(2)]), [row(1, 7)])[0]).toEqual(row(1, 7));
  expect(merge([], [row(1), row(1, 7)])).toEqual([row(1, 7)]);
});

test('only the newest steps are kept, and the oldest of these is where it is whole from', () => {
  let history: History = [];
  for (let step = 0; step < 50; step++) history = merge(history, [row(step)], 20);
  expect(history.map(([step]) => step)).toEqual(Array.from({ length: 20 }, (_, at) => 30 + at));
  expect(wholeFrom(history, 20)).toBe(30);
  expect(merge(history, [row(3)], 20)).toEqual(history);
  expect(wholeFrom(merge([], [row(5), row(6)]))).toBe(0);
});

describe('gaps', () => {
  test('missing steps, also before the first', () => {
    expect(gaps([row(2), row(3), row(7)])).toEqual([
      [0, 1],
      [4, 6],
    ]);
  });
  test('none before the first step that is whole', () => expect(gaps([row(7), row(9)], 7)).toEqual([[8, 8]]));
  test('none where all steps are there, even with zero anomalies', () => expect(gaps([row(0), row(1)])).toEqual([]));
});

test('search and sum', () => {
  const history = [row(2, 1), row(5, 4)];
  expect([0, 2, 3, 5, 6].map((step) => lowerBound(history, step))).toEqual([0, 0, 1, 1, 2]);
  expect(total([history, history])).toBe(10);
});

test('columns are read as rows: numbers and starts are differences', () => {
  const columns = {
    rank: '0:3' as const,
    steps: [7, 1, 3],
    starts_us: [1_000, 500, 2_000],
    durations_us: [400, 450, 1_900],
    calls: [9, 8, 0],
    anomalies: [0, 2, 0],
    severities_us: [0, 12.5, 0],
    highest_scores: [0, 0.75, 0],
  };
  expect(rowsOf(columns)).toEqual([
    [7, 1_000, 1_400, 9, 0, 0, 0],
    [8, 1_500, 1_950, 8, 2, 12.5, 0.75],
    [11, 3_500, 5_400, 0, 0, 0, 0],
  ]);
  expect(rowsOf({ ...columns, steps: [], starts_us: [] })).toEqual([]);
});
