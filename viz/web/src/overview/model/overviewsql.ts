/** What the panels of the overview show, as one SELECT each: see `shared/asking/sql`. */

import type { RankKey, Statistic } from '../../shared/api/types';

/** What ranks are put in order by; skewness and kurtosis take functions that not every SQLite has. */
const ORDERS: Partial<Record<Statistic, string>> = {
  mean: 'mean',
  stddev: 'variance',
  maximum: 'maximum',
  minimum: 'minimum',
  total: 'total',
  steps: 'steps',
};

/** The ranks with the largest and then those with the smallest value of a statistic of their anomalies per step. */
export function rankingSql(statistic: Statistic, n: number): string | undefined {
  const order = ORDERS[statistic];
  if (order === undefined) return undefined;
  const ranks =
    'SELECT program, rank, count(*) AS steps, sum(anomalies) AS total, sum(anomalies) * 1.0 / count(*) AS mean, ' +
    'CASE WHEN count(*) > 1 THEN (sum(anomalies * anomalies) - sum(anomalies) * 1.0 * sum(anomalies) / count(*)) / (count(*) - 1) ELSE 0 END AS variance, ' +
    'min(anomalies) AS minimum, max(anomalies) AS maximum, sum(severity_us) AS severity_us, max(step) AS last_step FROM steps WHERE run = :run GROUP BY program, rank';
  const end = (list: string, way: string): string =>
    `SELECT * FROM (SELECT '${list}' AS list, ranks.* FROM ranks ORDER BY ${order} ${way} LIMIT ${n}) AS ${list}`;
  return `WITH ranks AS (${ranks}) ${end('most', 'DESC')} UNION ALL ${end('least', 'ASC')}`;
}

/** The functions that lost most time. */
export const lostTimeSql = (n: number): string =>
  'SELECT f.program, f.name, s.* FROM function_statistics s JOIN functions f ON f.run = s.run AND f.number = s.function ' +
  `WHERE f.run = :run AND s.anomalies > 0 ORDER BY s.severity_us DESC LIMIT ${n}`;

/** Each analysed step of some ranks. */
export function stepsSql(ranks: readonly RankKey[]): string | undefined {
  if (ranks.length === 0) return undefined;
  const each = ranks.map((key) => key.split(':')).map(([program, rank]) => `(program = ${program} AND rank = ${rank})`);
  return `SELECT * FROM steps WHERE run = :run AND (${each.join(' OR ')}) ORDER BY program, rank, step`;
}
