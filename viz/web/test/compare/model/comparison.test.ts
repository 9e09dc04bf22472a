import { describe, expect, test } from 'vitest';
import { barsOf, change, positionOf, reachOf, ticksOf } from '../../../src/compare/model/comparison';
import type { Change, Shift } from '../../../src/shared/api/types';

const changeOf = (low: number, high: number, verdict: Change['verdict']): Change => ({
  effect: (low + high) / 2,
  low,
  high,
  raw: (low + high) / 2,
  p_value: 0.001,
  lost_us: 100,
  verdict,
});

const shift = (low: number, high: number, verdict: Change['verdict']): Shift => ({
  program: 'heat',
  name: 'relax',
  callers: [],
  calls: [100, 100],
  ordinary_us: [10, 11],
  mean_us: [10, 11],
  usual: changeOf(low, high, verdict),
  mean: changeOf(-0.01, 0.01, 'same'),
  decided_by: 'usual',
  is_waiting: false,
  rates: null,
  has_more_anomalies: false,
  distribution: null,
});

describe('axis of shifts', () => {
  test('no change is in the middle, twice and half as long equally far from it', () => {
    expect(positionOf(0, 1)).toBe(0.5);
    expect(positionOf(1, 1) - 0.5).toBeCloseTo(0.5 - positionOf(-0.5, 1));
  });

  test('what is beyond stands at the end', () => {
    expect([positionOf(99, 1), positionOf(-0.99, 1)]).toEqual([1, 0]);
  });

  test('it holds the named shifts, not the widest interval of those that are undecided', () => {
    const reach = reachOf([shift(0.05, 0.2, 'slower'), shift(-0.9, 9, 'unclear')]);
    expect(reach).toBeGreaterThan(Math.log1p(0.2));
    expect(reach).toBeLessThan(Math.log1p(0.3));
  });

  test.each([0.1, 0.2, 0.5, 1, 1.4])('its marks lie on it, 0 among them: %f', (reach) => {
    const ticks = ticksOf(reach);
    expect(ticks).toHaveLength(3);
    expect(ticks[1]).toBe(0);
    for (const tick of ticks) expect(Math.abs(Math.log1p(tick))).toBeLessThanOrEqual(reach);
  });
});

describe('distributions', () => {
  const even = { edges_us: [1, 2, 4, 8, 16], before: [0, 50, 50, 0], after: [0, 10, 10, 20] };

  test('bars are shares of the calls of each run', () => {
    const bars = barsOf(even);
    expect(bars.map((bar) => bar.before)).toEqual([0.5, 0.5, 0]);
    expect(bars.map((bar) => bar.after)).toEqual([0.25, 0.25, 0.5]);
    expect(bars.map((bar) => bar.lower_us)).toEqual([2, 4, 8]);
  });

  test('of many buckets some are taken together', () => {
    const edges_us = Array.from({ length: 101 }, (_, at) => 1.1 ** at);
    const ones = Array.from({ length: 100 }, () => 1);
    const bars = barsOf({ edges_us, before: ones, after: ones }, 30);
    expect(bars.length).toBeLessThanOrEqual(30);
    expect(bars.reduce((sum, bar) => sum + bar.before, 0)).toBeCloseTo(1);
  });
});

test('changes in words', () => {
  expect([change(0.1034), change(-0.05), change(2.4), change(null)]).toEqual(['+10.3 %', '−5.0 %', '+240 %', 'unknown']);
});
