/** What ranks and functions are put in order by, in words; and functions as lines of one list, whatever their order. */

import type { FunctionRanking, FunctionRow, RankRow } from './types';
import type { FunctionStatistic } from './view';
import { digits, duration, exact } from './units';

export const STATISTIC_NAMES: Record<FunctionStatistic, string> = {
  severity_us: 'time lost',
  mean: 'average',
  stddev: 'standard deviation',
  maximum: 'maximum',
  minimum: 'minimum',
  total: 'total',
  skewness: 'skewness',
  kurtosis: 'kurtosis',
  steps: 'number of steps',
};

export interface FunctionLine {
  program: number;
  name: string;
  value: number;
  severity_us: number;
  anomalies: number;
  /** What else is known of it. */
  facts: string[];
}

export interface FunctionLines {
  by: FunctionStatistic;
  /** How many there are to choose from. */
  functions: number;
  top: FunctionLine[];
  bottom: FunctionLine[];
}

/** The functions that lost most time, of those that lost any. */
export function lostTime({ functions, total }: { functions: FunctionRow[]; total: number }, n: number): FunctionLines {
  const top = functions.filter((row) => row.anomalies > 0).slice(0, n);
  return { by: 'severity_us', functions: total, top: top.map(lostLine), bottom: [] };
}

function lostLine(row: FunctionRow): FunctionLine {
  const { program, name, severity_us, anomalies } = row;
  return {
    program,
    name,
    value: severity_us,
    severity_us,
    anomalies,
    facts: [
      `in ${exact(row.calls)} calls`,
      `exclusive: ${duration(row.exclusive_mean_us)} ± ${duration(row.exclusive_stddev_us)} on average`,
      `inclusive: ${duration(row.inclusive_mean_us)} on average, at most ${duration(row.inclusive_maximum_us)}`,
    ],
  };
}

export function rankedFunctions({ statistic, functions, top, bottom }: FunctionRanking): FunctionLines {
  const line = (row: FunctionRanking['top'][number]): FunctionLine => ({
    program: row.program,
    name: row.name,
    value: row[statistic],
    severity_us: row.severity_us,
    anomalies: row.total,
    facts: statisticFacts(row),
  });
  return { by: statistic, functions, top: top.map(line), bottom: bottom.map(line) };
}

/** All statistics of anomalies per step, in lines. */
export function statisticFacts(row: Omit<RankRow, 'program' | 'rank' | 'severity_us' | 'last_step'>): string[] {
  return [
    `per step: average ${digits(row.mean)}, standard deviation ${digits(row.stddev)}`,
    `minimum ${exact(row.minimum)}, maximum ${exact(row.maximum)}, total ${exact(row.total)} in ${exact(row.steps)} steps`,
    `skewness ${digits(row.skewness)}, kurtosis ${digits(row.kurtosis)}`,
  ];
}
