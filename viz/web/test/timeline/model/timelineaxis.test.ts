import { describe, expect, test } from 'vitest';
import { askedFor, between, foldedAxis, moved, PLAIN_AXIS, showing, suffices, united, zoomed } from '../../../src/timeline/model/timelineaxis';

describe('intervals', () => {
  test('are united', () => {
    expect(
      united([
        [5, 9],
        [0, 3],
        [8, 12],
        [3, 4],
      ]),
    ).toEqual([
      [0, 4],
      [5, 12],
    ]);
  });

  test('have gaps', () => {
    expect(
      between(
        [
          [2, 3],
          [5, 8],
        ],
        0,
        10,
      ),
    ).toEqual([
      [0, 2],
      [3, 5],
      [8, 10],
    ]);
    expect(between([[0, 10]], 2, 5)).toEqual([]);
    expect(between([], 2, 5)).toEqual([[2, 5]]);
  });
});

describe('a folded axis', () => {
  const axis = foldedAxis([
    [1000, 1100],
    [5000, 5400],
    [5200, 5500],
  ]);

  test('keeps lengths of what is known, and takes little for the rest', () => {
    expect(axis.positionOf(1100) - axis.positionOf(1000)).toBe(100);
    expect(axis.positionOf(5500) - axis.positionOf(5000)).toBe(500);
    expect(axis.positionOf(5000) - axis.positionOf(1100)).toBeCloseTo(12);
  });

  test('goes both ways, and never back', () => {
    let before = -Infinity;
    for (let time = 0; time < 7000; time += 37) {
      const position = axis.positionOf(time);
      expect(position).toBeGreaterThan(before);
      expect(axis.timeAt(position)).toBeCloseTo(time, 6);
      before = position;
    }
  });

  test('nothing known, nothing folded', () => {
    expect(foldedAxis([]).positionOf(42)).toBe(42);
    expect(PLAIN_AXIS.timeAt(42)).toBe(42);
  });
});

describe('moving', () => {
  const bounds = [0, 1000] as const;

  test('what is pointed at stays where it is', () => {
    const [first, last] = zoomed([200, 600], 0.5, 300, bounds);
    expect(last - first).toBeCloseTo(200);
    expect((300 - first) / (last - first)).toBeCloseTo(0.25);
  });

  test('stays near what there is', () => {
    expect(moved([800, 1000], 5, bounds)[1]).toBeLessThanOrEqual(1010.001);
    expect(moved([0, 200], -5, bounds)[0]).toBeGreaterThanOrEqual(-10.001);
    const [first, last] = zoomed([0, 1000], 10, 500, bounds);
    expect(last - first).toBeLessThanOrEqual(1100);
  });

  test('a call that is chosen is shown, and nothing moves where it is seen already', () => {
    expect(showing([0, 100], 20, 40)).toEqual([0, 100]);
    expect(showing([0, 100], 220, 240)).toEqual([180, 280]);
    const tiny = showing([0, 1e6], 500, 501);
    expect(tiny[0]).toBeLessThan(500);
    expect(tiny[1] - tiny[0]).toBeLessThan(10);
  });
});

describe('what is asked for', () => {
  const extent = [0, 1e6] as const;

  test('is the picture and as much around it', () => {
    expect(askedFor([400_000, 410_000], 1000, extent)).toEqual({ from: 390_000, to: 420_000, columns: 3000 });
    expect(askedFor([0, 1e6], 1000, extent)).toEqual({ from: 0, to: 1e6, columns: 1000 });
  });

  test('does for what it was asked for, and for moving and zooming a little', () => {
    for (const range of [
      [400_000, 410_000],
      [0, 1e6],
      [999_000, 1e6],
      [5, 9],
    ] as const) {
      expect(suffices(askedFor(range, 1000, extent), range, 1000, extent)).toBe(true);
    }
    const asked = askedFor([400_000, 410_000], 1000, extent);
    expect(suffices(asked, [395_000, 405_000], 1000, extent)).toBe(true);
    expect(suffices(asked, [385_000, 395_000], 1000, extent)).toBe(false);
    expect(suffices(asked, [404_000, 405_000], 1000, extent)).toBe(false);
    expect(suffices(asked, [400_000, 406_000], 1000, extent)).toBe(true);
  });
});
