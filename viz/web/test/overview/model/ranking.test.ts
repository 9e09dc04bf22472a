import { expect, test } from 'vitest';
import { lostTime, rankedFunctions, statisticFacts } from '../../../src/overview/model/ranking';
import type { FunctionRankRow, FunctionRow } from '../../../src/shared/api/types';

const row = (name: string, anomalies: number, severity_us: number): FunctionRow => ({
  program: 0,
  name,
  calls: 1000,
  anomalies,
  severity_us,
  exclusive_mean_us: 10,
  exclusive_stddev_us: 1,
  inclusive_mean_us: 20,
  inclusive_maximum_us: 90,
});
const ranked = (name: string, more: Partial<FunctionRankRow> = {}): FunctionRankRow => ({
  program: 0,
  name,
  steps: 300,
  total: 12,
  mean: 0.04,
  stddev: 0.3,
  minimum: 0,
  maximum: 4,
  skewness: 3.5,
  kurtosis: -0.5,
  severity_us: 900,
  ...more,
});

test('functions that lost nothing are not among those that lost most', () => {
  const lines = lostTime({ functions: [row('a', 3, 900), row('b', 1, 50), row('c', 0, 0)], total: 71 }, 5);
  expect(lines.top.map((line) => [line.name, line.value])).toEqual([
    ['a', 900],
    ['b', 50],
  ]);
  expect([lines.functions, lines.bottom]).toEqual([71, []]);
  expect(lostTime({ functions: [row('a', 3, 900), row('b', 1, 50)], total: 2 }, 1).top).toHaveLength(1);
});

test('functions stand by the statistic that was asked for', () => {
  const lines = rankedFunctions({ statistic: 'kurtosis', n: 1, functions: 9, top: [ranked('a')], bottom: [ranked('b', { kurtosis: -2 })] });
  expect([lines.top[0]?.value, lines.bottom[0]?.value]).toEqual([-0.5, -2]);
  expect(lines.top[0]).toMatchObject({ anomalies: 12, severity_us: 900 });
});

test('what is not known is not zero', () => {
  const facts = statisticFacts(ranked('a', { stddev: null, minimum: null, maximum: null, skewness: null, kurtosis: null }));
  expect(facts).toEqual([
    'per step: average 0.04, standard deviation unknown',
    'minimum unknown, maximum unknown, total 12 in 300 steps',
    'skewness unknown, kurtosis unknown',
  ]);
});
