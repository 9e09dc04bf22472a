import { expect, test } from 'vitest';
import { lostTime, originFunctions, originRanks, rankedFunctions, rankedRanks, statisticFacts } from '../../../src/overview/model/ranking';
import type { FunctionRankRow, FunctionRow, Origin, OriginsAnswer, RankRow } from '../../../src/shared/api/types';

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

const origin = (more: Partial<Origin>): Origin => ({ program: 0, rank: null, function: null, incidents: 2, lost_us: 800_000, waited_us: 0, ...more });
const origins = (by: OriginsAnswer['by'], rows: Origin[]): OriginsAnswer => ({ ok: true, by, n: 5, origins: rows, total: 9, lost_us: 1e6, unknown_us: 0 });

test('what was lost because of a rank stands apart from what it waited', () => {
  const lines = originRanks(origins('rank', [origin({ rank: 3 }), origin({ rank: 1, incidents: 0, lost_us: 0, waited_us: 250_000 })]));
  expect(lines.top.map(({ rank, value, waited_us }) => [rank, value, waited_us])).toEqual([
    [3, 800_000, 0],
    [1, 0, 250_000],
  ]);
  expect([lines.by, lines.ranks, lines.bottom]).toEqual(['origin', 9, []]);
  expect(lines.top[1]?.facts).toEqual(['no incident began here', '250 ms waited here for others']);
  for (const line of lines.top) expect(line.cells).toHaveLength(lines.headings.length);
});

test('functions stand by their name, also where they only waited', () => {
  const [line] = originFunctions(origins('function', [origin({ function: 'checkpoint' })])).top;
  expect([line?.name, line?.facts[0]]).toEqual(['checkpoint', '2 incidents began here and cost 800 ms on all ranks together']);
});

test('ranks stand by the statistic that was asked for, and nothing is said of waits', () => {
  const rank = { ...ranked(''), rank: 2, last_step: 30 } as unknown as RankRow;
  const lines = rankedRanks({ statistic: 'maximum', n: 1, ranks: 4, top: [rank], bottom: [] });
  expect(lines.top[0]).toMatchObject({ rank: 2, value: 4, waited_us: null });
  expect(lines.top[0]?.cells).toHaveLength(lines.headings.length);
});
