/** What the server says of one function, and of the streams that call it. Durations are µs. */

import type { FunctionRow } from './types';

export interface FunctionStatistics extends FunctionRow {
  exclusive_minimum_us: number;
  exclusive_maximum_us: number;
  /** How many times as long its calls take now as at first. */
  drift: number;
}

export interface Runtimes {
  calls: number;
  mean_us: number;
  stddev_us: number;
  minimum_us: number;
  maximum_us: number;
}

export interface Bucket {
  lower_us: number;
  upper_us: number;
  calls: number;
}

/** Runtimes from the first up to but without the second; null where there is no such limit. */
export interface Span {
  lower_us: number | null;
  upper_us: number | null;
}

/** What the detector knew of a function in one version of the model. */
export interface Distribution {
  version: number;
  exclusive: Runtimes;
  inclusive: Runtimes;
  /** Of the judged runtime, by which the detector judges; null where it has none. */
  buckets: Bucket[] | null;
  /** ... over the whole run; null in older stores. */
  counted: Bucket[] | null;
  /** Runtimes that are not flagged. */
  ordinary: Span[];
  threshold: number;
}

export interface FunctionDetail {
  statistics: FunctionStatistics;
  distribution: Distribution | null;
}

/** Abnormal calls that have something in common: a rank, a step, or an interval of time. */
export interface Total {
  program: number | null;
  rank: number | null;
  step: number | null;
  start_us: number | null;
  anomalies: number;
  severity_us: number;
  highest_severity_us: number;
  highest_score: number;
}

export interface Totals {
  totals: Total[];
  /** Length of intervals of time. */
  width_us: number | null;
  total: number;
}

export interface PathNode {
  parent: number | null;
  program: number;
  function: string;
  path: number | null;
  calls: number;
  exclusive: Omit<Runtimes, 'calls'> | null;
  inclusive: Omit<Runtimes, 'calls'> | null;
  anomalies: number;
  severity_us: number;
}

/** All values of one counter of one rank. */
export interface CounterTotals {
  counter: string;
  values: number;
  mean: number;
  stddev: number;
  minimum: number;
  maximum: number;
}

export interface MetadataRow {
  thread: number;
  key: string;
  value: string;
}
