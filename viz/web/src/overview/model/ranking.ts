/** Rankings of ranks and functions as lines of a list, whatever they are ranked by. */

import { STATISTICS, type RankedBy } from '../../shared/address/model/view';
import { bounded, digits, duration, exact, plural, sign } from '../../shared/units/units';
import type { Bound, FunctionRanking, FunctionRankRow, FunctionRow, Origin, OriginsAnswer, Ranking, RankRow } from '../../shared/api/types';

export const STATISTIC_NAMES: Record<RankedBy, string> = {
  origin: 'lost because of it',
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

/** Fields of a line that both lists have. */
interface Line {
  program: number;
  value: number;
  /** Time lost here because of others; null where the ranking does not distinguish it. */
  waited_us: number | null;
  /** How sure a lost time is that the line stands for; absent where it is a sum of known calls. */
  bound?: Bound;
  /** Further facts, for the tooltip. */
  facts: string[];
}

export interface RankLine extends Line {
  rank: number;
  /** Cells of the table, in the order of the headings. */
  cells: string[];
}

export interface RankLines {
  by: RankedBy;
  /** Number of all that were ranked. */
  ranks: number;
  headings: string[];
  top: RankLine[];
  bottom: RankLine[];
}

export interface FunctionLine extends Line {
  name: string;
  /** Time lost by the function's own calls. */
  severity_us: number;
  anomalies: number;
}

export interface FunctionLines {
  by: RankedBy;
  /** Number of all that were ranked. */
  functions: number;
  top: FunctionLine[];
  bottom: FunctionLine[];
}

/** Ranks by the time that their abnormal calls lost, or by one statistic of their anomalies per step. */
export function rankedRanks({ statistic, ranks, top, bottom }: Ranking): RankLines {
  const line = (row: RankRow): RankLine => ({
    program: row.program,
    rank: row.rank,
    value: row[statistic],
    waited_us: null,
    facts: [
      `${plural(row.total, 'anomaly')} in ${plural(row.steps, 'step')}`,
      ...statisticFacts(row),
      `time lost: ${duration(row.severity_us)}`,
      `last step: ${exact(row.last_step)}`,
    ],
    cells: [duration(row.severity_us), ...STATISTICS.map((name) => digits(row[name]))],
  });
  return {
    by: statistic,
    ranks,
    headings: [STATISTIC_NAMES.severity_us, ...STATISTICS.map((name) => STATISTIC_NAMES[name])],
    top: top.map(line),
    bottom: bottom.map(line),
  };
}

/** Ranks by the time that was lost because of them. */
export function originRanks({ origins, total }: OriginsAnswer): RankLines {
  const line = (row: Origin): RankLine => ({
    program: row.program,
    rank: row.rank ?? 0,
    value: row.lost_us,
    waited_us: row.waited_us,
    bound: row.bound,
    facts: originFacts(row),
    cells: [exact(row.incidents), sign(row.bound) + duration(row.lost_us), duration(row.waited_us)],
  });
  return { by: 'origin', ranks: total, headings: ['incidents', 'lost because of it', 'waited for others'], top: origins.map(line), bottom: [] };
}

/** Functions by the time that was lost because of them. */
export function originFunctions({ origins, total }: OriginsAnswer): FunctionLines {
  const line = (row: Origin): FunctionLine => ({
    program: row.program,
    name: row.function ?? '',
    value: row.lost_us,
    severity_us: row.lost_us,
    waited_us: row.waited_us,
    bound: row.bound,
    anomalies: row.incidents,
    facts: originFacts(row),
  });
  return { by: 'origin', functions: total, top: origins.map(line), bottom: [] };
}

const originFacts = (row: Origin): string[] => [
  row.incidents === 0
    ? 'no incident began here'
    : `${plural(row.incidents, 'incident')} began here and cost ${bounded(row.lost_us, row.bound)} on all ranks together`,
  `${duration(row.waited_us)} waited here for others`,
];

/** Functions that lost time, the most first. */
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
    waited_us: null,
    anomalies,
    facts: [
      anomaliesOf(row),
      `in ${exact(row.calls)} calls`,
      `exclusive: ${duration(row.exclusive_mean_us)} ± ${duration(row.exclusive_stddev_us)} on average`,
      `inclusive: ${duration(row.inclusive_mean_us)} on average, at most ${duration(row.inclusive_maximum_us)}`,
    ],
  };
}

const anomaliesOf = ({ anomalies, severity_us }: Pick<FunctionLine, 'anomalies' | 'severity_us'>): string =>
  `${exact(anomalies)} anomalies, ${duration(severity_us)} lost`;

export function rankedFunctions({ statistic, functions, top, bottom }: FunctionRanking): FunctionLines {
  const line = (row: FunctionRanking['top'][number]): FunctionLine => ({
    program: row.program,
    name: row.name,
    // Functions without a known value of the statistic have no rank.
    value: row[statistic] ?? 0,
    severity_us: row.severity_us,
    waited_us: null,
    anomalies: row.total,
    facts: [anomaliesOf({ anomalies: row.total, severity_us: row.severity_us }), ...statisticFacts(row)],
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
