import { describe, expect, test } from 'vitest';
import { momentsOf, pathOf, rangeOf, timeTicks, valueAt, type Curve } from '../../../../src/shared/charts/model/curves';

const curve = (values: (number | null)[]): Curve => ({ name: 'c', times_us: values.map((_, at) => 10 * at), values });
const same = (value: number): number => value;

describe('curves', () => {
  test('a path is broken where there is no number, and a lone point can be seen', () => {
    expect(pathOf(curve([1, 2, null, 3, null]), same, same)).toBe('M0.0 1.0L10.0 2.0M30.0 3.0h1.5');
    expect(pathOf(curve([]), same, same)).toBe('');
  });

  test('a range has room also where all values are alike', () => {
    expect(rangeOf([curve([1, null, 5])])).toEqual([1, 5]);
    expect(rangeOf([curve([4])])).toEqual([2, 6]);
    expect(rangeOf([curve([0])])).toEqual([-0.5, 0.5]);
    expect(rangeOf([curve([null])])).toEqual([0, 1]);
  });

  test('a value lasts until the next one', () => {
    const one = curve([1, null, 5]);
    expect([-1, 0, 9, 10, 25].map((time_us) => valueAt(one, time_us))).toEqual([undefined, 1, 1, null, 5]);
  });

  test('ticks of a short time have decimals, and none is there twice', () => {
    expect(timeTicks(12_900_000, 13_300_000, 4).map(({ text }) => text)).toEqual(['12.9 s', '13.0 s', '13.1 s', '13.2 s', '13.3 s']);
    expect(timeTicks(-3e6, 130e6, 3).map(({ text }) => text)).toEqual(['0:00', '0:50', '1:40']);
    expect(timeTicks(5, 5, 3)).toEqual([{ at_us: 5, text: '0:00' }]);
  });

  test('of many moments some are chosen, the first and the last among them', () => {
    expect(momentsOf([curve([1, 2]), { ...curve([1]), times_us: [5] }], 9)).toEqual([0, 5, 10]);
    expect(momentsOf([curve(Array.from({ length: 11 }, () => 1))], 3)).toEqual([0, 50, 100]);
  });
});
