import { expect, test } from 'vitest';
import { timeTicks, wholeTicks } from '../../../../src/shared/charts/model/ticks';

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
  expect(timeTicks(-8000, 262_000, 6)).toEqual([0, 50_000, 100_000, 150_000, 200_000, 250_000]);
});
