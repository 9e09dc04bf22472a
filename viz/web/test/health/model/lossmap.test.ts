import { describe, expect, test } from 'vitest';
import { LINE_PX, lossLayout, lostAt, nextLost } from '../../../src/health/model/lossmap';
import type { GapsAnswer } from '../../../src/shared/api/types';

const answer: GapsAnswer = {
  ranks: [
    {
      rank: '0:2',
      gap_steps: 5,
      gaps: [
        [20, 23],
        [40, 40],
      ],
      gaps_total: 2,
    },
    { rank: '0:7', gap_steps: 1, gaps: [[99, 99]], gaps_total: 1 },
  ],
  lossy_ranks: 2,
  last_step: 99,
};
const layout = lossLayout(answer, 564 + 8);

test('lost steps stand where their steps are', () => {
  const [first, second] = layout.lines[0]?.lost ?? [];
  const perStep = (layout.right - layout.left) / 100;
  expect(first).toMatchObject({ first: 20, last: 23, x: layout.left + 20 * perStep, width: 4 * perStep });
  expect(second?.width).toBeCloseTo(perStep);
  expect(layout.height).toBeGreaterThan(2 * LINE_PX);
});

test('one lost step of a hundred thousand is seen', () => {
  const long = lossLayout({ ranks: [{ rank: '0:0', gap_steps: 1, gaps: [[7, 7]], gaps_total: 1 }], lossy_ranks: 1, last_step: 99_999 }, 600);
  expect(long.lines[0]?.lost[0]?.width).toBe(2);
});

test('the pointer finds what it is on, or near, and nothing elsewhere', () => {
  const lost = layout.lines[1]?.lost[0];
  expect(lostAt(layout, (lost?.x ?? 0) - 3, LINE_PX + 5)).toBe(lost);
  expect(lostAt(layout, layout.left, LINE_PX + 5)).toBeNull();
  expect(lostAt(layout, layout.left, 10 * LINE_PX)).toBeNull();
});

describe('arrows', () => {
  const [first, second] = layout.lines[0]?.lost ?? [];
  const other = layout.lines[1]?.lost[0];
  test.each([
    [null, 'ArrowRight', first],
    [first, 'ArrowRight', second],
    [second, 'ArrowRight', second],
    [second, 'ArrowLeft', first],
    [first, 'ArrowDown', other],
    [other, 'ArrowUp', second],
    [other, 'ArrowDown', other],
  ])('%#', (from, key, to) => expect(nextLost(layout, from ?? null, key)).toBe(to));
});
