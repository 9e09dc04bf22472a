/** What the server says, as it says it. Times are µs since the Unix epoch; durations are µs. */

import type { GridUpdate } from './grid';

export type RankKey = string; // 'program:rank'

export interface Status {
  state: 'live' | 'behind' | 'stale' | 'ended';
  sentence: string;
  version: number;
  /** Start of the first analysed step: zero of the run clock. */
  zero_us: number;
  /** µs from the first analysed step's start to the last one's end. */
  clock_us: number;
  /** µs between the newest analysed step and now; null where the trace is a recorded one. */
  lag_us: number | null;
  last_step: number | null;
  /** Analysed ones, of all ranks together; likewise the rows of traces and the calls in them. */
  steps: number;
  events: number;
  calls: number;
  ranks: number;
  ranks_reporting: number;
  anomalies: number;
  /** Share of steps that were not analysed; null while no stream has told. */
  loss: number | null;
  losses: Record<string, number>;
}

export interface Answer {
  anomalies: number;
  ranks_with_anomalies: number;
  functions: number;
  /** Called often enough for a call to be flagged. */
  functions_judged: number;
  worst_function: string | null;
  worst_severity_us: number;
  worst_call: string | null;
  worst_rank: RankKey | null;
}

export interface Run {
  id: string;
  name: string;
  command: string[];
  directory: string;
  state: string;
  exit_code: number | null;
  started_us: number;
  ended_us: number;
  host: string;
  version: string;
  environment: Record<string, string>;
  programs: Record<string, string>;
  config: { detector: string; metric: 'exclusive' | 'inclusive' };
  live: boolean;
  status: Status;
  answer: Answer;
}

export interface RankRow {
  program: number;
  rank: number;
  steps: number;
  total: number;
  mean: number;
  stddev: number;
  minimum: number;
  maximum: number;
  skewness: number;
  kurtosis: number;
  severity_us: number;
  last_step: number;
}

export interface Ranking {
  statistic: Statistic;
  n: number;
  ranks: number;
  top: RankRow[];
  bottom: RankRow[];
}

/** A function's abnormal calls per analysed step of a rank; `steps` is the number of these, over all ranks of its program. */
export interface FunctionRankRow {
  program: number;
  name: string;
  steps: number;
  total: number;
  mean: number;
  severity_us: number;
  /** Null, like what follows, where nobody knows in which steps its abnormal calls were. */
  stddev: number | null;
  minimum: number | null;
  maximum: number | null;
  skewness: number | null;
  kurtosis: number | null;
}

export interface FunctionRanking {
  statistic: Statistic;
  n: number;
  /** How many there are to choose from. */
  functions: number;
  top: FunctionRankRow[];
  bottom: FunctionRankRow[];
}

export const STATISTICS = ['mean', 'stddev', 'maximum', 'minimum', 'total', 'skewness', 'kurtosis', 'steps'] as const;
export type Statistic = (typeof STATISTICS)[number];

export interface FunctionRow {
  program: number;
  name: string;
  calls: number;
  anomalies: number;
  severity_us: number;
  exclusive_mean_us: number;
  exclusive_stddev_us: number;
  inclusive_mean_us: number;
  inclusive_maximum_us: number;
}

/** step, start_us, end_us, calls, anomalies, severity_us, highest_score. */
export type StepRow = [number, number, number, number, number, number, number];

export interface CallSummary {
  id: string;
  program: number;
  rank: number;
  thread: number;
  step: number;
  node: string;
  function: string;
  label: string;
  entry_us: number;
  exit_us: number;
  inclusive_us: number;
  exclusive_us: number;
  score: number;
  severity_us: number;
  expected_us: number;
  children: number;
  messages_count: number;
  is_gpu: boolean;
}

/** One entry for each call; `rank`, `function` and `caller` are places in the lists of names, -1 for none. */
export interface PointColumns {
  rank: number[];
  function: number[];
  caller: number[];
  step: number[];
  begin_step: number[];
  begin_row: number[];
  thread: number[];
  entry_us: number[];
  inclusive_us: number[];
  exclusive_us: number[];
  expected_us: number[];
  severity_us: number[];
  score: number[];
  children: number[];
  messages_count: number[];
  is_anomaly: boolean[];
  is_gpu: boolean[];
  is_open: boolean[];
}

/** Calls for a chart, the worst first, and how many there are beside them. */
export interface Points {
  functions: string[];
  ranks: RankKey[];
  nodes: string[];
  columns: PointColumns;
  anomalies: number;
  normal_calls: number;
  /** Calls that were analysed there; null where that is not counted by what the filter asks. */
  analysed: number | null;
}

export interface CallPage {
  calls: CallSummary[];
  next: string | null;
  total: number;
  /** Otherwise there are more than `total`. */
  is_total_exact: boolean;
}

export interface StackFrame {
  id: string;
  function: string;
  entry_us: number;
  exit_us: number;
  is_anomaly: boolean;
}

export interface WindowCall extends StackFrame {
  parent_id: string;
  depth: number;
}

export interface Message {
  kind: string;
  source: number;
  destination: number;
  tag: number;
  size_bytes: number;
  time_us: number;
  call_id: string;
}

export interface CounterValue {
  counter: string;
  value: number;
  time_us: number;
  call_id: string;
}

export interface CallRecord extends CallSummary {
  is_final: boolean;
  step_start_us: number;
  step_end_us: number;
  spread_us: number;
  seen: number;
  detector: string;
  depth: number;
  children: number;
  messages_count: number;
  call_stack: StackFrame[];
  window: WindowCall[];
  messages: Message[];
  counters: CounterValue[];
  node_state: CounterValue[];
  left_out: number;
  revision: number;
  version: number;
  incident_id: string;
  /** What each metric of the trace rose by in the call. */
  metrics: CounterValue[];
  launch_id: string;
  launch_thread: number;
  launch_stack: StackFrame[];
  model_version: number;
}

export interface CallDetail {
  record: CallRecord;
  normal: CallRecord | null;
}

/** What all pages are told, up to four times a second. */
export interface LiveFrame {
  status: Status;
  /** Something may have been missed: read histories and grid again. */
  resync: boolean;
  /** What is new in the grid of all ranks; null where nothing is. */
  grid: GridUpdate | null;
}

/** New steps of the ranks that a page watches. */
export type LiveSteps = Record<RankKey, StepRow[]>;

/** Anomalies per million calls, and the bounds of the true rate. */
export interface Rate {
  anomalies: number;
  calls: number;
  per_million: number;
  low: number;
  high: number;
}

/** Calls of both runs in the same buckets. */
export interface BothRuntimes {
  edges_us: number[];
  before: number[];
  after: number[];
}

/** How much longer calls of a function, or call path, take; of pairs the run before comes first. */
export interface Shift {
  program: string;
  name: string;
  callers: string[];
  calls: [number, number];
  ordinary_us: [number | null, number | null];
  mean_us: [number, number];
  effect: number | null;
  low: number | null;
  high: number | null;
  p_value: number;
  lost_us: number;
  verdict: 'slower' | 'faster' | 'same' | 'unclear';
  is_waiting: boolean;
  rates: [Rate, Rate] | null;
  has_more_anomalies: boolean;
  distribution: BothRuntimes | null;
}

export interface OneSided {
  program: string;
  name: string;
  calls: number;
  total_us: number;
}

export interface RankChange {
  program: string;
  rank: number;
  rates: [Rate, Rate];
  severity_us: [number, number];
  has_more_anomalies: boolean;
}

export interface RunSide {
  id: string;
  name: string;
  ranks: number;
  calls: number;
  duration_us: number;
  exclusive_us: number;
  rate: Rate;
}

export interface Comparison {
  before: RunSide;
  after: RunSide;
  metric: 'exclusive' | 'inclusive';
  least_effect: number;
  common: number;
  functions: Shift[];
  paths: Shift[];
  new: OneSided[];
  vanished: OneSided[];
  ranks: RankChange[];
}

export interface ComparisonAnswer {
  sentences: string[];
  comparison: Comparison;
  functions: number;
}

export interface ListedRun {
  folder: string;
  id: string;
  name: string;
  state: string;
  started_us: number;
  is_this: boolean;
  path: string;
  /** 0 while it goes on. */
  ended_us: number;
  exit_code: number | null;
  /** null where its store cannot be read. */
  ranks: number | null;
  anomalies: number | null;
  loss: number | null;
}
