/** A function's abnormal calls along the run. */

import type { Total, Totals } from '../../shared/api/types';

/** Number of steps up to which each has a column of its own. */
export const MOST_COLUMNS = 1000;

export interface TrendColumn {
  /** The step, or the begin of the interval in µs since the run's start. */
  at: number;
  anomalies: number;
  severity_us: number;
  /** Number of the step; null for an interval of time. */
  step: number | null;
}

export interface Trend {
  by: 'step' | 'time';
  columns: TrendColumn[];
  /** First position and the one after the last, in steps or µs. */
  first: number;
  end: number;
  /** Width of one column, in steps or µs. */
  width: number;
}

/** Make the columns of totals by step or time; without any, no call was abnormal. */
export function trendOf(found: Totals, zero_us: number, lastStep: number, clock_us: number): Trend {
  const { width_us, totals } = found;
  if (width_us === null) return { by: 'step', columns: totals.map(ofStep), first: 0, end: lastStep + 1, width: 1 };
  const columns = totals.map((total) => ({ ...ofStep(total), at: (total.start_us ?? 0) - zero_us, step: null }));
  // Intervals are whole seconds since the epoch, so the first one may begin before the run.
  const first = Math.min(0, ...columns.map((column) => column.at));
  return { by: 'time', columns, first, end: Math.max(clock_us, ...columns.map((column) => column.at + width_us)), width: width_us };
}

const ofStep = (total: Total): TrendColumn => ({ at: total.step ?? 0, anomalies: total.anomalies, severity_us: total.severity_us, step: total.step });
