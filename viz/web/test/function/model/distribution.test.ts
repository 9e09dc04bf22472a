import { describe, expect, test } from 'vitest';
import {
  bucketsOf,
  callsIn,
  columnsOf,
  flaggedText,
  inLanes,
  isByPath,
  isFlagged,
  limitsOf,
  logAxis,
  medianOf,
  pathRange,
  percentile,
  shareBelow,
} from '../../../src/function/model/distribution';
import type { Bucket, Distribution, Runtimes } from '../../../src/shared/api/types';

const bucket = (lower_us: number, upper_us: number, calls: number): Bucket => ({ lower_us, upper_us, calls });
const runtimes = (calls: number): Runtimes => ({ calls, mean_us: 100, stddev_us: 10, minimum_us: 80, maximum_us: 400 });
const buckets = [bucket(64, 128, 900), bucket(128, 256, 99), bucket(256, 512, 1)];
const known: Distribution = {
  version: 3,
  exclusive: runtimes(1000),
  inclusive: runtimes(1000),
  buckets,
  counted: null,
  ordinary: [{ lower_us: null, upper_us: 256 }],
  threshold: 4.5,
};

describe('shares', () => {
  test('calls below a runtime, evenly spread inside a bucket', () => {
    expect([1, 64, 96, 128, 192, 256, 512, 9999].map((us) => shareBelow(us, buckets))).toEqual([0, 0, 0.45, 0.9, 0.9495, 0.999, 1, 1]);
    expect(shareBelow(100, [])).toBeNull();
  });

  test('a percentile has as many digits as tell it from 100', () => {
    expect(percentile(0.5, 1000)).toBe('p50');
    expect(percentile(0.95, 1000)).toBe('p95');
    expect(percentile(0.9995, 100_000)).toBe('p99.95');
    expect(percentile(0.99998, 1_000_000)).toBe('p99.998');
  });

  test('the longest call of all is longer than all others, and not than itself', () => {
    expect(percentile(1, 3196)).toBe('p99.97');
    expect(percentile(1, 2)).toBe('p50');
  });

  test('half of the calls are longer than the median', () => {
    expect(medianOf(buckets)).toBeCloseTo(64 + (500 / 900) * 64);
    expect(medianOf([])).toBeNull();
  });
});

describe('limits', () => {
  test('what is counted over the whole run is shown, else what the detector remembers', () => {
    const counted = [bucket(64, 128, 5000)];
    expect([callsIn(known, 'exclusive'), callsIn({ ...known, counted }, 'exclusive'), callsIn({ ...known, buckets: null }, 'inclusive')]).toEqual([
      1000, 5000, 1000,
    ]);
    expect(bucketsOf({ ...known, counted })).toBe(counted);
  });

  test('flagging begins where ordinary runtimes end', () => {
    expect([255.9, 256].map((us) => isFlagged(us, known))).toEqual([false, true]);
    expect(flaggedText(known)).toBe('flag ≥ 256 µs');
    const both = {
      ...known,
      ordinary: [
        { lower_us: 10, upper_us: 20 },
        { lower_us: 40, upper_us: 80 },
      ],
    };
    expect(limitsOf(both)).toEqual([10, 20, 40, 80]);
    expect([9, 10, 20, 39, 40, 80].map((us) => isFlagged(us, both))).toEqual([true, false, true, true, false, true]);
    expect(flaggedText(both)).toBe('flag < 10 µs, ≥ 80 µs, and 1 gap');
    expect(flaggedText({ ...known, ordinary: [{ lower_us: null, upper_us: null }] })).toBe('nothing is flagged yet');
  });
});

describe('axis', () => {
  test('shortest and longest are inside, and equal ratios are equally far apart', () => {
    const { xOf } = logAxis([10, 1000, 0, Infinity], 500);
    expect(xOf(10)).toBeGreaterThan(0);
    expect(xOf(1000)).toBeLessThan(500);
    expect(xOf(100) - xOf(10)).toBeCloseTo(xOf(1000) - xOf(100));
  });

  test.each([
    [[90, 110], 400],
    [[1, 1e9], 300],
    [[2000, 2100], 800],
    [[0.5, 40], 200],
  ])('%j on %i px has a few round ticks in one unit, none twice', (ends, width) => {
    const { ticks } = logAxis(ends, width);
    const texts = ticks.map((tick) => tick.text);
    expect(new Set(texts).size).toBe(texts.length);
    expect(ticks.length).toBeLessThanOrEqual(Math.max(2, width / 40));
    expect(ticks.every((tick) => tick.x >= 0 && tick.x <= width)).toBe(true);
  });

  test('one call among thousands is seen, and no empty bucket is', () => {
    const columns = columnsOf({ ...known, buckets: [...buckets, bucket(512, 1024, 0)] }, logAxis([64, 512], 300), 90);
    expect(columns.map((column) => column.height)).toEqual([90, 9.9, 2]);
    expect(columns.map((column) => column.flagged)).toEqual([false, false, true]);
  });
});

test('labels that would cover each other stand in lanes of their own, and inside the picture', () => {
  const placed = inLanes(
    [
      { x: 10, text: 'this call 1 ms' },
      { x: 30, text: 'normal call' },
      { x: 290, text: 'flag ≥ 2 ms' },
    ],
    300,
  );
  expect(placed.map((label) => [label.lane, label.anchor])).toEqual([
    [0, 'start'],
    [1, 'start'],
    [0, 'end'],
  ]);
});

test('a call inside the ordinary runtimes of its function was judged by its call path, where that is clearly shorter', () => {
  const ordinary = { ordinary: [{ lower_us: null, upper_us: 1000 }], by_path_to_us: 100 } as unknown as Distribution;
  const call = { label: 'anomaly', expected_us: 80, spread_us: 4 } as const;
  expect(isByPath(call, 400, ordinary)).toBe(true);
  expect([isByPath(call, 1200, ordinary), isByPath({ ...call, expected_us: 300 }, 400, ordinary)]).toEqual([false, false]);
  expect(isByPath({ ...call, label: 'normal' }, 90, ordinary)).toBe(false);
  expect(pathRange(call)).toBe('range of this call path: 80 µs ± 4 µs');
});
