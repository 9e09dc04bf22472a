import { describe, expect, test } from 'vitest';
import { AXES, AXIS_KINDS } from '../../../src/shared/address/model/axes';
import type { Wording } from '../../../src/calls/model/callpoints';
import { timeText } from '../../../src/calls/model/callaxis';
import {
  boxAround,
  boxAside,
  FASTER,
  layoutCalls,
  nearestCall,
  neighbourCall,
  NORMAL,
  rangesOf,
  sizeOf,
  SLOWER,
  type CallLayout,
  type Wanted,
} from '../../../src/calls/model/calllayout';
import { pointsOf, type Row } from './points';
import type { Points } from '../../../src/shared/api/types';

const WORDING: Wording = { zero_us: 1_000_000, programs: 1, metric: 'exclusive', scoreUnit: 'σ' };
const ENTRY_BY_FUNCTION: Wanted = { x: 'entry', y: 'function', xScale: null, yScale: null, xRange: null, yRange: null };

const laid = (points: Points, wanted: Partial<Wanted> = {}, width = 900, height = 300): CallLayout =>
  layoutCalls(points, { ...ENTRY_BY_FUNCTION, ...wanted }, width, height, WORDING);

const call = (change: Partial<Row>): Partial<Row> => change;
const THREE: Points = pointsOf([
  call({ function: 'b', entry_us: 3_000_000, severity_us: 9_000, exclusive_us: 10_000, is_anomaly: true }),
  call({ function: 'a', entry_us: 2_000_000, severity_us: 0, exclusive_us: 200, is_anomaly: true }),
  call({ function: 'c', entry_us: 5_000_000 }),
]);

describe('marks', () => {
  test('anomalies are slower or faster, others normal', () => expect([...laid(THREE).kind]).toEqual([SLOWER, FASTER, NORMAL]));

  test('the size shows the time lost beside the most', () => {
    expect([...laid(THREE).size]).toEqual([11, 6, 6]);
    expect([100, 34, 33, 10, 9].map((lost) => sizeOf(lost, 100))).toEqual([11, 11, 8, 8, 6]);
  });

  test('the worst is drawn last, normal calls first', () => expect([...laid(THREE).drawn]).toEqual([2, 1, 0]));

  test('of normal calls within two pixels one is drawn, anomalies all', () => {
    const many = pointsOf([
      ...Array.from({ length: 40 }, () => call({ is_anomaly: true, severity_us: 50 })),
      ...Array.from({ length: 1000 }, (_, at) => call({ entry_us: 2_000_000 + at, inclusive_us: 500 })),
    ]);
    const layout = laid(many, { x: 'inclusive', y: 'severity' });
    expect([...layout.drawn].filter((at) => at < 40)).toHaveLength(40);
    expect(layout.drawn.length).toBe(41);
    expect(layout.covered).toBe(999);
  });
});

describe('axes', () => {
  test('functions stand in rows, those that lost most on top', () => {
    const layout = laid(THREE);
    expect(layout.yAxis.ticks.map((tick) => tick.text)).toEqual(['b', 'a', 'c']);
    expect([...layout.y].map(Math.round)).toEqual(layout.yAxis.ticks.map((tick) => Math.round(tick.at)));
  });

  test('times count from the start of the run', () => {
    const layout = laid(THREE);
    expect(layout.xAxis.title).toBe('entry, s since the start');
    const [two, one, four] = layout.x as unknown as [number, number, number];
    expect((two - one) / (four - one)).toBeCloseTo(1 / 3);
    expect(one).toBeGreaterThan(layout.left);
    expect(four).toBeLessThan(layout.right);
  });

  test.each(AXES.flatMap((x) => AXES.map((y) => [x, y] as const)))('%s by %s: every call is inside', (x, y) => {
    for (const scale of [null, 'linear', 'log'] as const) {
      const layout = laid(THREE, { x, y, xScale: scale, yScale: scale });
      for (let at = 0; at < 3; at++) {
        expect(layout.x[at]).toBeGreaterThanOrEqual(layout.left);
        expect(layout.x[at]).toBeLessThanOrEqual(layout.right);
        expect(layout.y[at]).toBeGreaterThanOrEqual(layout.top);
        expect(layout.y[at]).toBeLessThanOrEqual(layout.base);
      }
      for (const axis of [layout.xAxis, layout.yAxis]) {
        const texts = axis.ticks.map((tick) => tick.text);
        expect(new Set(texts).size).toBe(texts.length);
        expect(texts.length).toBeGreaterThan(0);
      }
    }
  });

  test.each(AXES)('%s: larger values stand farther', (axis) => {
    if (AXIS_KINDS[axis].kind === 'names') return;
    const rows = [1, 2, 3].map((n) =>
      call({ entry_us: n * 1_000_000, inclusive_us: n * 100, exclusive_us: n * 100, severity_us: n * 100, score: n, children: n, messages_count: n, step: n }),
    );
    const across = laid(pointsOf(rows), { x: axis, y: axis === 'score' ? 'severity' : 'score' });
    expect(across.x[0]).toBeLessThan(across.x[1] as number);
    expect(across.x[1]).toBeLessThan(across.x[2] as number);
    const up = laid(pointsOf(rows), { x: axis === 'score' ? 'severity' : 'score', y: axis });
    expect(up.y[0]).toBeGreaterThan(up.y[1] as number);
  });

  test('zero has a place of its own on a logarithmic axis, below all others', () => {
    const layout = laid(THREE, { y: 'severity' });
    expect(layout.yAxis.ticks[0]?.text).toBe('0');
    expect(layout.yAxis.breaks).toHaveLength(1);
    expect(layout.y[1]).toBe(layout.y[2]);
    expect(layout.y[1]).toBeGreaterThan(layout.yAxis.breaks[0] as number);
    expect(layout.y[0]).toBeLessThan(layout.yAxis.breaks[0] as number);
  });

  test('a call that has not ended has no exit, and is said to be open', () => {
    const open = pointsOf([call({ entry_us: 9_000_000, is_open: true, is_anomaly: true }), call({ entry_us: 2_000_000 })]);
    const layout = laid(open, { x: 'exit' });
    expect(layout.xAxis.ticks.at(-1)?.text).toBe('open');
    expect(layout.x[0]).toBeGreaterThan(layout.xAxis.breaks[0] as number);
    expect(layout.x[1]).toBeLessThan(layout.xAxis.breaks[0] as number);
  });

  test('calls that would cover each other in a row stand side by side in it', () => {
    const same = pointsOf(Array.from({ length: 3 }, () => call({ function: 'a', is_anomaly: true })));
    expect(new Set(laid(same).y).size).toBe(3);
    const crowd = laid(pointsOf(Array.from({ length: 500 }, (_, at) => call({ function: at % 2 ? 'a' : 'b', is_anomaly: true }))));
    const middle = (crowd.top + crowd.base) / 2;
    for (let at = 0; at < 500; at++) expect((crowd.y[at] as number) < middle).toBe((crowd.y[0] as number) < middle === (at % 2 === 0));
  });

  test('where both axes are names, calls of one place are spread within it', () => {
    const same = pointsOf(Array.from({ length: 50 }, () => call({ function: 'a', is_anomaly: true })));
    const layout = laid(same, { x: 'label', y: 'function' });
    expect(new Set([...layout.x].map((x, at) => `${x.toFixed(1)} ${(layout.y[at] as number).toFixed(1)}`)).size).toBe(50);
  });

  test('names that have no room are left out, the worst first among those shown', () => {
    const many = pointsOf(Array.from({ length: 200 }, (_, at) => call({ function: `stage_${at}`, severity_us: 1000 - at, is_anomaly: true })));
    const ticks = laid(many).yAxis.ticks;
    expect(ticks[0]?.text).toBe('stage_0');
    expect(ticks.length).toBeLessThan(25);
    for (let at = 1; at < ticks.length; at++) expect((ticks[at]?.at ?? 0) - (ticks[at - 1]?.at ?? 0)).toBeGreaterThanOrEqual(13);
  });

  test('nothing to show is no error', () => expect(laid(pointsOf([]), { x: 'severity', y: 'inclusive' }).drawn).toHaveLength(0));
});

describe('finding', () => {
  const layout = laid(THREE);

  test('the nearest mark in reach', () => {
    expect(nearestCall(layout, (layout.x[0] as number) + 5, (layout.y[0] as number) - 5)).toBe(0);
    expect(nearestCall(layout, (layout.x[0] as number) + 20, layout.y[0] as number)).toBe(-1);
  });

  test('of marks at one place the one on top', () => {
    const same = laid(pointsOf([call({ is_anomaly: true, severity_us: 7 }), call({ severity_us: 7 })]), { x: 'severity', y: 'inclusive' });
    expect(nearestCall(same, same.x[1] as number, same.y[1] as number)).toBe(0);
  });

  test('arrows lead to the mark on that side', () => {
    const cross = laid(
      pointsOf(
        [
          [50, 50],
          [90, 52],
          [10, 48],
          [51, 90],
          [49, 10],
        ].map(([x, y]) => call({ score: x as number, inclusive_us: y as number, is_anomaly: true })),
      ),
      { x: 'score', y: 'inclusive', yScale: 'linear' },
      400,
      400,
    );
    expect((['ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowDown'] as const).map((key) => neighbourCall(cross, 0, key))).toEqual([1, 2, 3, 4]);
    expect(neighbourCall(cross, 1, 'ArrowRight')).toBe(1);
  });
});

describe('zoom', () => {
  const wanted = { x: 'entry', y: 'exclusive' } as const;
  const whole = laid(THREE, wanted);

  test('a rectangle fills the chart, what is outside is left out', () => {
    const [x, y] = [whole.x[0] as number, whole.y[0] as number];
    const ranges = rangesOf(whole, { x0: x + 50, y0: y + 20, x1: x - 50, y1: y - 20 });
    const part = laid(THREE, { ...wanted, ...ranges });
    expect([...part.drawn]).toEqual([0]);
    expect(part.outside).toBe(2);
    expect(part.x[0]).toBeCloseTo((part.left + part.right) / 2, 0);
    expect(part.y[0]).toBeCloseTo((part.top + part.base) / 2, 0);
  });

  test('names are not zoomed', () => expect(rangesOf(laid(THREE), boxAround(laid(THREE), 300, 100, 0.5)).yRange).toBeNull());

  test('what is under the pointer stays there', () => {
    const [x, y] = [whole.x[0] as number, whole.y[0] as number];
    const nearer = laid(THREE, { ...wanted, ...rangesOf(whole, boxAround(whole, x, y, 0.5)) });
    expect(nearer.x[0]).toBeCloseTo(x, 1);
    expect(nearer.y[0]).toBeCloseTo(y, 1);
    const moved = laid(THREE, { ...wanted, ...rangesOf(nearer, boxAside(nearer, 0.1)) });
    expect(moved.x[0]).toBeCloseTo(x - (nearer.right - nearer.left) * 0.1, 1);
  });

  test('zero and open calls are on no part of an axis', () => {
    const open = pointsOf([call({ is_open: true, is_anomaly: true }), call({ severity_us: 9 })]);
    expect(laid(open, { x: 'exit', xRange: [0, 1e9] }).outside).toBe(1);
    expect(laid(open, { x: 'severity', xRange: [1, 10] }).outside).toBe(1);
  });
});

describe('texts', () => {
  test('ticks of a second more than a minute after the start differ', () => {
    expect([0, 0.2, 0.4].map((s) => timeText(3_912e6 + s * 1e6, 'clock', 200_000))).toEqual(['1:05:12.0', '1:05:12.2', '1:05:12.4']);
    expect(timeText(3_600e6, 'clock', 60e6)).toBe('1:00:00');
    expect([86.2, 86.25].map((s) => timeText(s * 1e6, 's', 50_000))).toEqual(['86.20', '86.25']);
    expect(timeText(59_999_999.6, 'clock', 1e6)).toBe('1:00');
  });

  test('minutes stand on round ones', () => {
    const layout = laid(pointsOf([0, 360].map((s) => call({ entry_us: 1_000_000 + s * 1e6 }))));
    expect(layout.xAxis.ticks.map((tick) => tick.text)).toEqual(['0:00', '1:00', '2:00', '3:00', '4:00', '5:00', '6:00']);
  });
});
