/**
 * What the server says, by the names that the page has for it. `schema` is made from the server's own description;
 * only what that leaves open, and what comes over the socket, is written here. Times are µs since the Unix epoch;
 * durations are µs.
 */

import type * as schema from './schema';

export type {
  AdvisedNode,
  AnalysisInterval,
  AgentState as Agent,
  BesideAnswer,
  BothRuntimes,
  Bucket,
  CallAnswer as CallDetail,
  CallRecord,
  CallsAnswer as CallPage,
  Change,
  Comparison,
  ComparisonAnswer,
  CoresAnswer,
  GpuLane,
  GpusAnswer,
  CountersAnswer,
  CounterTotals,
  CounterValue,
  DatedFinding,
  Distribution,
  ExportFormat,
  ExportFormatsAnswer as ExportFormats,
  FlaggedFunction as FunctionRankRow,
  FunctionAnswer as FunctionDetail,
  FunctionRankingAnswer as FunctionRanking,
  FunctionsAnswer,
  FunctionStatistics,
  Gaps,
  GapsAnswer,
  GridAnswer,
  Headline as Answer,
  Incident,
  IncidentAnswer,
  IncidentsAnswer,
  IncidentSummary,
  JudgedSpan as Judged,
  KnownQuantity,
  Line,
  ListedRun,
  Look,
  Message,
  Metadata,
  MetadataAnswer,
  NodeAnswer,
  NodeBeside,
  NodeFacts,
  NodePart,
  NodeRank,
  NodesAnswer,
  NodeView,
  MetricFinding,
  MetricFindingAnswer,
  OneSided,
  Origin,
  OriginsAnswer,
  Part,
  PathNode,
  PathsAnswer,
  PlacementAnswer,
  PointColumns,
  PointsAnswer as Points,
  PredictedPlacement,
  ProgramRows as GridProgram,
  QuantityAnswer,
  RankChange,
  RankingAnswer as Ranking,
  RankStatistics as RankRow,
  RankTime,
  Rate,
  RecurrenceAnswer,
  RecurrenceSummary,
  RunsAnswer,
  RunSide,
  Runtimes,
  Shift,
  SilentRank,
  Span,
  StackFrame,
  StatementAnswer,
  Status,
  StepColumns,
  StepColumnsAnswer,
  StepSum,
  StepSumsAnswer,
  StreamHealth,
  StreamsAnswer,
  TaskView,
  ThreadsAnswer,
  TimelineAnswer,
  TimelineLinks,
  TimelineRow,
  Total,
  TotalsAnswer as Totals,
  Vital,
  VitalsAnswer as Vitals,
  Waited,
  WorkflowAnswer,
} from './schema';

export type RankKey = string; // 'program:rank'
export type Statistic = schema.RankingAnswer['statistic'];
/** The runtime that calls are judged by. */
export type Metric = 'exclusive' | 'inclusive';

export type Run = schema.RunAnswer & { config: { metric: Metric } };

export type FunctionRow = Pick<
  schema.FunctionStatistics,
  'program' | 'name' | 'calls' | 'anomalies' | 'severity_us' | 'exclusive_mean_us' | 'exclusive_stddev_us' | 'inclusive_mean_us' | 'inclusive_maximum_us'
>;

/** What lists, charts and a call's own page all know of a call. */
export type CallSummary = Pick<
  schema.CallSummary,
  | 'id'
  | 'program'
  | 'rank'
  | 'thread'
  | 'step'
  | 'node'
  | 'function'
  | 'label'
  | 'entry_us'
  | 'exit_us'
  | 'inclusive_us'
  | 'exclusive_us'
  | 'score'
  | 'severity_us'
  | 'expected_us'
  | 'children'
  | 'messages_count'
  | 'is_gpu'
> & {
  /** Empty while it is in none; points of a chart do not tell. */
  incident_id?: string;
};

/** step, start_us, end_us, calls, anomalies, severity_us, highest_score. */
export type StepRow = [number, number, number, number, number, number, number];

/** What a frame says of the whole grid. */
export interface GridUpdate {
  layout: number;
  steps_per_column: number;
  columns: number;
  /** A little-endian u32 for each cell that has grown: row << 18 | column << 8 | value. */
  cells: ArrayBuffer;
  /** The same of the codes of times lost. */
  lost: ArrayBuffer;
  /** Column and new start of those whose start is known, or earlier than was sent. */
  starts: [column: number, start_us: number][];
}

/** What all pages are sent, up to four times a second. */
export interface LiveFrame {
  status: schema.Status;
  /** Something may have been missed: read histories and grid again. */
  resync: boolean;
  /** What is new in the grid of all ranks; null where nothing is. */
  grid: GridUpdate | null;
}

/** New steps of the ranks that a page watches. */
export type LiveSteps = Record<RankKey, StepRow[]>;
