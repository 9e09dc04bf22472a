import { expect, test } from 'vitest';
import { formatRange, formatSpan, oneRank, parseRange, parseRankRange, parseSpan, partsOf } from '../../../../src/shared/address/model/ranges';

test('ranks are one, or several of a program', () => {
  expect([oneRank('1:16'), oneRank('1:16..31'), oneRank(null)]).toEqual(['1:16', null, null]);
  expect([partsOf('1:16'), partsOf('1:16..31')]).toEqual([
    { program: 1, ranks: [16, 16] },
    { program: 1, ranks: [16, 31] },
  ]);
  expect(['3', '3..7', '2:3..3', '7..3', '2:', 'x'].map((text) => parseRankRange(text))).toEqual(['0:3', '0:3..7', '2:3', null, null, null]);
});

test('a range that ends before it begins is none', () => {
  expect(['30', '20..30', '30..20', '', 'x', '1.5'].map(parseRange)).toEqual([[30, 30], [20, 30], null, null, null, null]);
  expect([formatRange([30, 30]), formatRange([20, 30]), formatRange(null)]).toEqual(['30', '20..30', '']);
  expect(['0.25..0.5', '-3..4e12', '1..1', '..2', '1'].map(parseSpan)).toEqual([[0.25, 0.5], [-3, 4e12], null, null, null]);
  expect([formatSpan([-3, 4e12]), formatSpan(null)]).toEqual(['-3..4000000000000', '']);
});
