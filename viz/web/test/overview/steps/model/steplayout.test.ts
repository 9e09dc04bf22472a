import { expect, test } from 'vitest';
import { layout, nearest, stepAt, xOf, zoomed, type Series } from '../../../../src/overview/steps/model/steplayout';
import type { StepRow } from '../../../../src/shared/api/types';

const row = (step: number, anomalies: number): StepRow => [step, 0, 1, 10, anomalies, 0];
const series = (counts: (number | null)[], rank = '0:1', slot = 0): Series => ({
  rank,
  slot,
  from: 0,
  rows: counts.flatMap((count, step) => (count === null ? [] : [row(step, count)])),
});

test('every step of a short run has its own mark, within the frame', () => {
  const drawn = layout([series([0, 2, 1, 0])], 'anomalies', null, 400, 200);
  expect(drawn.points.map((point) => point.row[4])).toEqual([0, 2, 1, 0]);
  for (const { x, y } of drawn.points) {
    expect(x).toBeGreaterThanOrEqual(drawn.left);
    expect(x).toBeLessThanOrEqual(drawn.right);
    expect(y).toBeGreaterThanOrEqual(drawn.top);
    expect(y).toBeLessThanOrEqual(drawn.base);
  }
});

test('a position gives back its step', () => {
  const drawn = layout([series(new Array<number>(97).fill(1))], 'anomalies', null, 640, 200);
  for (let step = 0; step < 97; step++) expect(stepAt(drawn, xOf(drawn, step))).toBe(step);
});

test('long histories draw each pixel once, and no anomaly is lost in it', () => {
  const counts = Array.from({ length: 50_000 }, (_, step) => (step === 31_337 ? 1 : 0));
  const drawn = layout([series(counts)], 'anomalies', null, 500, 200);
  expect(drawn.points.length).toBeLessThan(1_000);
  expect(drawn.points.filter((point) => point.row[4] === 1)).toHaveLength(1);
});

test('what alternates within a pixel is drawn once each', () => {
  const drawn = layout([series(Array.from({ length: 36_000 }, (_, step) => step % 2))], 'anomalies', null, 500, 200);
  expect(drawn.points.length).toBeLessThanOrEqual(2 * 500);
  expect(new Set(drawn.points.map((point) => point.row[4]))).toEqual(new Set([0, 1]));
});

test('what was let go is neither drawn nor called unknown', () => {
  const rows = [row(500, 1), row(501, 0), row(503, 2)];
  const drawn = layout([{ rank: '0:1', slot: 0, from: 500, rows }], 'anomalies', null, 400, 200);
  expect(drawn.range).toEqual([500, 503]);
  expect(drawn.gaps.map((gap) => gap.steps)).toEqual([[502, 502]]);
});

test('a gap is not a zero', () => {
  const drawn = layout([series([0, null, null, 0])], 'anomalies', null, 400, 200);
  expect(drawn.points).toHaveLength(2);
  expect(drawn.gaps.map((gap) => gap.steps)).toEqual([[1, 2]]);
});

test('equal counts of several ranks do not hide each other, and stay within their step', () => {
  const drawn = layout([series([2, 2]), series([2, 2], '0:2', 1), series([2, 2], '0:3', 2)], 'anomalies', null, 400, 200);
  expect(new Set(drawn.points.map((point) => point.x)).size).toBe(6);
  for (const point of drawn.points) expect(stepAt(drawn, point.x)).toBe(point.row[0]);
});

test('zoom shows only its steps', () => {
  const drawn = layout([series([9, 1, 2, 0, 5])], 'anomalies', [1, 3], 400, 200);
  expect(drawn.points.map((point) => point.row[0])).toEqual([1, 2, 3]);
  expect(drawn.maximum).toBe(3);
});

test('the nearest mark within reach', () => {
  const drawn = layout([series([0, 3])], 'anomalies', null, 400, 200);
  const [, point] = drawn.points;
  if (!point) throw new Error('no mark');
  expect(nearest(drawn.points, point.x + 4, point.y - 3)).toBe(point);
  expect(nearest(drawn.points, point.x, point.y + 40)).toBeNull();
});

test('zoom stays on the run', () => {
  expect(zoomed([0, 100], 50, 0.5)).toEqual([25, 75]);
  expect(zoomed([10, 10], 10, 2)).toEqual([9, 11]);
});

test('heights may be the time lost, in one unit', () => {
  const rows: StepRow[] = [0, 40_000, 900_000].map((lost_us, step) => [step, 0, 1, 10, lost_us > 0 ? 1 : 0, lost_us, 0]);
  const drawn = layout([{ rank: '0:1', slot: 0, from: 0, rows }], 'lost', null, 400, 200);
  const [none, some, most] = drawn.points.map((point) => drawn.base - point.y) as [number, number, number];
  expect(none).toBe(0);
  expect(most / some).toBeCloseTo(900 / 40);
  expect(drawn.unit).toBe('ms');
  expect(drawn.yTicks.map((tick) => tick.text)).toContain('800');
  const quiet = layout([{ rank: '0:1', slot: 0, from: 0, rows: rows.slice(0, 1) }], 'lost', null, 400, 200);
  expect(quiet.yTicks.map((tick) => tick.text)).toEqual(['0']);
});
