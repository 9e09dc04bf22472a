/** What ranks and functions are put in order by, in words; and functions as lines of one list, whatever their order. */

import type { FunctionStatistic } from '../../shared/address/model/view';
import { digits, duration, exact } from '../../shared/units/units';
import type { FunctionRanking, FunctionRankRow, FunctionRow } from '../../shared/api/types';

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
    // Functions of which it is unknown are in no order by it.
    value: row[statistic] ?? 0,
    severity_us: row.severity_us,
    anomalies: row.total,
    facts: statisticFacts(row),
  });
  return { by: statistic, functions, top: top.map(line), bottom: bottom.map(line) };
}

type Statistics = Omit<FunctionRankRow, 'program' | 'name' | 'severity_us'>;

/** All statistics of anomalies per step, in lines. */
export function statisticFacts(row: Statistics): string[] {
  return [
    `per step: average ${digits(row.mean)}, standard deviation ${known(row.stddev, digits)}`,
    `minimum ${known(row.minimum, exact)}, maximum ${known(row.maximum, exact)}, total ${exact(row.total)} in ${exact(row.steps)} steps`,
    `skewness ${known(row.skewness, digits)}, kurtosis ${known(row.kurtosis, digits)}`,
  ];
}

const known = (value: number | null, format: (value: number) => string): string => (value === null ? 'unknown' : format(value));
