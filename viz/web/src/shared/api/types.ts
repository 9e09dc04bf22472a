/**
 * Types of the server's answers, by the page's names. `schema` is generated from the server's description of its API;
 * only what it leaves open, and the messages of the socket, are written here. Times are µs since the Unix epoch;
 * durations are µs.
 */

import type * as schema from './schema';

export type {
  AdvisedNode,
  AnalysisInterval,
  AgentState as Agent,
  BesideAnswer,
  Bound,
  BothRuntimes,
  Bucket,
  Budget,
  BudgetAnswer,
  CallAnswer as CallDetail,
  CallRecord,
  CallsAnswer as CallPage,
  Census,
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
  FunctionByRankAnswer as FunctionByRank,
  FunctionRankingAnswer as FunctionRanking,
  FunctionsAnswer,
  FunctionStatistics,
  Gaps,
  GapsAnswer,
  GridAnswer,
  HistoryAnswer,
  Headline as Answer,
  Incident,
  IncidentAnswer,
  IncidentsAnswer,
  IncidentSummary,
  JudgedCall as Judged,
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
  Mark,
  MarkAnswer,
  MetricFinding,
  MetricFindingAnswer,
  NodeCost,
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
  RankCensus,
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
  SelectionAnswer,
  SeriesChange,
  SeriesHistory,
  SeriesQuantity,
  Shift,
  TimeChange,
  SilentRank,
  Span,
  StackFrame,
  StatementAnswer,
  Status,
  StepColumns,
  StepColumnsAnswer,
  StepSum,
  StepSumsAnswer,
  StepTime,
  StepTimes,
  StepTimesAnswer,
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
/** Runtime that calls are judged by. */
export type Metric = 'exclusive' | 'inclusive';

export type Run = schema.RunAnswer & { config: { metric: Metric } };

export type FunctionRow = Pick<
  schema.FunctionStatistics,
  'program' | 'name' | 'calls' | 'anomalies' | 'severity_us' | 'exclusive_mean_us' | 'exclusive_stddev_us' | 'inclusive_mean_us' | 'inclusive_maximum_us'
>;

/** Fields of a call that lists, charts and the call's page all have. */
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
  /** Id of its incident; empty where there is none, missing in points of a chart. */
  incident_id?: string;
};

/** One step of a rank: step, start_us, end_us, calls, anomalies, severity_us, highest_score. */
export type StepRow = [number, number, number, number, number, number, number];

/** Update of the grid of all ranks. */
export interface GridUpdate {
  layout: number;
  steps_per_column: number;
  columns: number;
  /** One little-endian u32 for each cell that has grown: row << 18 | column << 8 | value. */
  cells: ArrayBuffer;
  /** The same for the codes of times lost. */
  lost: ArrayBuffer;
  /** Columns whose start is now known, or is earlier than the one that was sent. */
  starts: [column: number, start_us: number][];
}

/** Frame that all pages receive, up to four times per second. */
export interface LiveFrame {
  status: schema.Status;
  /** Whether frames may have been missed, so that histories and grid have to be read again. */
  resync: boolean;
  /** Update of the grid of all ranks; null where nothing is new. */
  grid: GridUpdate | null;
}

/** New steps of the ranks that a page watches. */
export type LiveSteps = Record<RankKey, StepRow[]>;
