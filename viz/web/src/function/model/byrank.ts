/** Exclusive time of a function on each rank, in columns of neighbouring ranks. */

import { quantileSorted } from 'd3-array';
import type { FunctionByRank } from '../../shared/api/types';

/** Greatest number of columns; of more ranks than these, several share a column. */
export const MOST_COLUMNS = 200;

export interface RankColumn {
  /** First and last rank. */
  first: number;
  last: number;
  /** Number of the ranks that called the function. */
  ranks: number;
  calls: number;
  /** Exclusive time of a rank: the shortest, the median and the longest. */
  shortest_us: number;
  median_us: number;
  longest_us: number;
  /** Rank with the longest time. */
  longest: number;
}

export interface ByRank {
  columns: RankColumn[];
  /** Number of ranks in each column but the last. */
  width: number;
  shortest_us: number;
  median_us: number;
  /** 99th percentile of the ranks' times. */
  p99_us: number;
  longest_us: number;
  shortest: number;
  longest: number;
}

/** Make columns of the ranks that called a function, with percentiles over all of them; null where none did. */
export function byRankOf({ ranks, calls, exclusive_us }: FunctionByRank): ByRank | null {
  if (ranks.length === 0) return null;
  const width = Math.ceil(ranks.length / MOST_COLUMNS);
  const columns = Array.from({ length: Math.ceil(ranks.length / width) }, (_, at) => {
    const [from, end] = [at * width, (at + 1) * width];
    return columnOf(ranks.slice(from, end), calls.slice(from, end), exclusive_us.slice(from, end));
  });
  const all = columnOf(ranks, calls, exclusive_us);
  const { shortest_us, median_us, longest_us, longest } = all;
  const p99_us = quantileSorted(sorted(exclusive_us), 0.99) as number;
  return { columns, width, shortest_us, median_us, p99_us, longest_us, longest, shortest: ranks[exclusive_us.indexOf(shortest_us)] as number };
}

function columnOf(ranks: readonly number[], calls: readonly number[], times: readonly number[]): RankColumn {
  const inOrder = sorted(times);
  const longest_us = inOrder[inOrder.length - 1] as number;
  return {
    first: ranks[0] as number,
    last: ranks[ranks.length - 1] as number,
    ranks: ranks.length,
    calls: calls.reduce((sum, own) => sum + own, 0),
    shortest_us: inOrder[0] as number,
    median_us: quantileSorted(inOrder, 0.5) as number,
    longest_us,
    longest: ranks[times.indexOf(longest_us)] as number,
  };
}

const sorted = (times: readonly number[]): number[] => [...times].sort((a, b) => a - b);
