import { expect, test } from 'vitest';
import { logTicks, roundTicks, wholeTicks } from '../../../../src/shared/charts/model/ticks';

test.each([
  [0, 1, 10],
  [0, 2, 7],
  [0, 9, 5],
  [0, 3600, 8],
  [113, 117, 6],
  [0, 0, 5],
])('ticks %d..%d are whole, rising, few', (first, last, most) => {
  const found = wholeTicks(first, last, most);
  expect(found.length).toBeLessThanOrEqual(most + 1);
  expect(found.every(Number.isInteger)).toBe(true);
  expect(new Set(found).size).toBe(found.length);
});

test('ticks of time are round, rising and few', () => {
  expect(roundTicks(-8000, 262_000, 6)).toEqual([0, 50_000, 100_000, 150_000, 200_000, 250_000]);
});

test('of a logarithmic axis there are decades, parts of them, or each few of them', () => {
  expect(logTicks(8, 120, 9)).toEqual([10, 20, 30, 50, 70, 100]);
  expect(logTicks(8, 120, 5)).toEqual([10, 20, 50, 100]);
  expect(logTicks(1, 1e6, 7)).toEqual([1, 10, 100, 1e3, 1e4, 1e5, 1e6]);
  expect(logTicks(1, 1e6, 3)).toEqual([1, 1e3, 1e6]);
  expect(logTicks(100, 250, 3)).toEqual([100, 150, 200, 250]);
});
