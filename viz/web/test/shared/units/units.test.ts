import { expect, test } from 'vitest';
import * as units from '../../../src/shared/units/units';

test.each([
  [0, '0 µs'],
  [0.5, '0.5 µs'],
  [212.4, '212 µs'],
  [999.4, '999 µs'],
  [999.6, '1 ms'],
  [12_340, '12.3 ms'],
  [812_000, '812 ms'],
  [999_900, '1 s'],
  [59_900_000, '59.9 s'],
  [59_990_000, '60 s'],
  [125_000_000, '125 s'],
  [999_700_000, '16 min 40 s'],
  [3_599_600_000, '1 h 0 min'],
  [14_300_000_000, '3 h 58 min'],
  [8.64e15, '2,400,000 h'],
])('duration of %d µs is %s', (us, text) => expect(units.duration(us)).toBe(text));

test('what is estimated or the least is said to be, in sentences and in columns', () => {
  expect((['exact', 'estimated', 'at least'] as const).map((bound) => [units.bounded(62e6, bound), units.sign(bound)])).toEqual([
    ['62 s', ''],
    ['≈ 62 s', '≈ '],
    ['at least 62 s', '≥ '],
  ]);
});

test('negative numbers have a minus, not a hyphen', () => {
  expect([-1234.4, -12.34, -0.0123].map(units.digits)).toEqual(['−1,234', '−12.3', '−0.0123']);
  expect([-2500, -125_000_000].map(units.duration)).toEqual(['−2.5 ms', '−125 s']);
  expect([units.exact(-12_345), units.count(-12), units.percent(-0.929)]).toEqual(['−12,345', '−12', '−92.9 %']);
  expect([-0.929, 0, 0.103, 2.4].map(units.change)).toEqual(['−92.9 %', '+0.0 %', '+10.3 %', '+240 %']);
});

test('one unit for a column', () => {
  const values = [3, 12_000, 400];
  const unit = units.columnUnit(values);
  expect(unit).toBe('ms');
  expect(values.map((value) => units.inUnit(value, unit))).toEqual(['0.003', '12', '0.4']);
});

test('lost times are in seconds up to an hour', () => {
  expect([[176e6, 12e3], [4000e6, 12e3], [3, 12_000], []].map(units.lostUnit)).toEqual(['s', 'clock', 'ms', 'µs']);
});

test.each([
  [0, '0'],
  [9_999, '9,999'],
  [10_000, '10,000'],
  [2_100_000, '2.1 M'],
  [3_220_000_000, '3.22 G'],
])('count %d is %s', (n, text) => expect(units.count(n)).toBe(text));

test('bytes, ratios, shares, scores', () => {
  expect(units.bytes(8_000)).toBe('8 kB');
  expect(units.bytes(12)).toBe('12 B');
  expect(units.ratio(3.14)).toBe('3.1×');
  expect(units.ratio(9.96)).toBe('10×');
  expect(units.ratio(1234)).toBe('1,234×');
  expect(units.percent(0.008)).toBe('0.8 %');
  expect(units.percent(0)).toBe('0 %');
  expect(units.percent(null)).toBe('unknown');
  expect(units.score(18.71, 'σ')).toBe('18.7 σ');
  expect(units.score(18.71, '')).toBe('18.7');
});

test.each([
  ['5 ms', 5000],
  ['200us', 200],
  ['1.5 s', 1_500_000],
  ['7', 7000],
  ['212 µs', 212],
  ['', null],
  ['x', null],
  ['-3 ms', null],
])('%s is %s µs', (text, us) => expect(units.parseDuration(text)).toBe(us));

test('times', () => {
  expect(units.sinceStart(3_912_482_000)).toBe('+01:05:12.482');
  expect(units.sinceStart(-1_500_000)).toBe('−00:00:01.500');
  expect(units.wallClock(1_700_000_000_123_456)).toBe('2023-11-14 22:13:20.123 Z');
  expect(units.wallTime(1_700_000_000_123_456)).toBe('22:13:20.123');
  expect(units.wallTime(1_700_000_000_023_456, 6)).toBe('22:13:20.023456');
  expect(units.wallTime(1_700_000_000_999_999, 0)).toBe('22:13:20');
});

test('zero has no sign', () => {
  expect(units.fixed(-0.001, 2)).toBe('0.00');
  expect(units.fixed(-0, 0)).toBe('0');
  expect(units.fixed(-0.01, 2)).toBe('−0.01');
});
