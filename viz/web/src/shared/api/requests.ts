/** Requests for runs, incidents, calls, ranks and functions, and for the health of the analysis. */

import { filterQuery } from '../asking/filters';
import type { Range } from '../address/model/ranges';
import type { View } from '../address/model/view';
import { get } from './http';
import type { Request } from './request';
import type {
  BudgetAnswer,
  CallDetail,
  CallPage,
  ExportFormats,
  FunctionRanking,
  FunctionsAnswer,
  GapsAnswer,
  IncidentAnswer,
  IncidentsAnswer,
  MetadataAnswer,
  MetricFindingAnswer,
  OriginsAnswer,
  PlacementAnswer,
  Points,
  Ranking,
  RankKey,
  RecurrenceAnswer,
  Run,
  RunsAnswer,
  Statistic,
  StepSumsAnswer,
  StreamsAnswer,
  Vitals,
} from './types';

export const PAGE_SIZE = 50;

export const getRun = (signal: AbortSignal): Promise<Run> => get('run', [], signal);

export const getExportFormats = (signal: AbortSignal): Promise<ExportFormats> => get('export-formats', [], signal);

export const getRanks = (statistic: Statistic, n: number, signal: AbortSignal): Promise<Ranking> => get(...rankingRequest(statistic, n), signal);

export const rankingRequest = (statistic: Statistic, n: number): Request => [
  'ranks',
  [
    ['statistic', statistic],
    ['n', String(n)],
  ],
];

/** Where all the time of the run went. */
export const getBudget = (signal: AbortSignal): Promise<BudgetAnswer> => get('budget', [], signal);

/** Incidents that cost most. */
export const incidentsRequest = (limit: number, times: Range | null = null): Request => ['incidents', [['limit', String(limit)], ...within(times)]];

/** Parameters for incidents within a time, in µs since the epoch. */
const within = (times: Range | null): Request[1] =>
  times === null
    ? []
    : [
        ['from_us', String(times[0])],
        ['to_us', String(times[1])],
      ];

export const getIncidents = (limit: number, times: Range | null, signal: AbortSignal): Promise<IncidentsAnswer> =>
  get(...incidentsRequest(limit, times), signal);

export const incidentRequest = (id: string): Request => [`incidents/${id}`, []];

export const recurrenceRequest = (id: string): Request => [`recurrences/${id}`, []];

export const getRecurrence = (id: string, signal: AbortSignal): Promise<RecurrenceAnswer> => get(...recurrenceRequest(id), signal);

export const metricFindingRequest = (id: string): Request => [`metric-findings/${id}`, []];

export const getMetricFinding = (id: string, signal: AbortSignal): Promise<MetricFindingAnswer> => get(...metricFindingRequest(id), signal);

export const getIncident = (id: string, signal: AbortSignal): Promise<IncidentAnswer> => get(...incidentRequest(id), signal);

/** Ranks or functions by the time that was lost because of them. */
export const originsRequest = (by: OriginsAnswer['by'], n: number, times: Range | null = null): Request => [
  'origins',
  [['by', by], ['n', String(n)], ...within(times)],
];

export const getOrigins = (by: OriginsAnswer['by'], n: number, times: Range | null, signal: AbortSignal): Promise<OriginsAnswer> =>
  get(...originsRequest(by, n, times), signal);

export const getFunctionRanking = (statistic: Statistic, n: number, signal: AbortSignal): Promise<FunctionRanking> =>
  get(...functionRankingRequest(statistic, n), signal);

export const functionRankingRequest = (statistic: Statistic, n: number): Request => [
  'function-ranking',
  [
    ['statistic', statistic],
    ['n', String(n)],
  ],
];

export const getFunctions = (signal: AbortSignal): Promise<FunctionsAnswer> => get('functions', [['limit', '50']], signal);

/** Functions for a search, as many as one answer holds. */
export const getAllFunctions = (signal: AbortSignal): Promise<FunctionsAnswer> => get('functions', [['limit', '1000']], signal);

export const getCall = (id: string, signal: AbortSignal): Promise<CallDetail> => get(`calls/${encodeURIComponent(id)}`, [], signal);

export const getRuns = (signal: AbortSignal): Promise<RunsAnswer> => get('runs', [], signal);

export const getCalls = (view: View, zero_us: number, signal: AbortSignal, limit = PAGE_SIZE): Promise<CallPage> =>
  get(...callsRequest(view, zero_us, limit), signal);

/** One page of the calls that match a view's filters. */
export const callsRequest = (view: View, zero_us: number, limit = PAGE_SIZE): Request => {
  const query: [string, string][] = [
    ['sort', view.sort],
    ['descending', String(view.descending)],
    ['limit', String(limit)],
  ];
  if (view.cursor !== null) query.push(['cursor', view.cursor]);
  return ['calls', [...filterQuery(view, zero_us), ...query]];
};

export const getPoints = (view: View, zero_us: number, signal: AbortSignal): Promise<Points> => get(...pointsRequest(view, zero_us), signal);

export const pointsRequest = (view: View, zero_us: number): Request => ['points', filterQuery(view, zero_us)];

export const getVitals = (signal: AbortSignal): Promise<Vitals> => get('vitals', [], signal);

export const getPlacement = (signal: AbortSignal): Promise<PlacementAnswer> => get('placement', [], signal);

export const getGaps = (signal: AbortSignal): Promise<GapsAnswer> => get('gaps', [], signal);

export const getStreams = (view: View, signal: AbortSignal): Promise<StreamsAnswer> => get(...streamsRequest(view), signal);

export function streamsRequest({ streamOrder, streamState, streamCursor }: View): Request {
  const query: [string, string][] = [
    ['sort', streamOrder],
    ['limit', String(PAGE_SIZE)],
  ];
  if (streamState !== null) query.push(['state', streamState]);
  if (streamCursor !== null) query.push(['cursor', streamCursor]);
  return ['streams', query];
}

/** Sums over all ranks, each of 8 ** level steps. */
export const getStepSums = (level: number, signal: AbortSignal): Promise<StepSumsAnswer> =>
  get(
    'step-sums',
    [
      ['level', String(level)],
      ['limit', '1000'],
    ],
    signal,
  );

export const getMetadata = (rank: RankKey, signal: AbortSignal): Promise<MetadataAnswer> => {
  const [program = '', number = ''] = rank.split(':');
  return get(
    'metadata',
    [
      ['program', program],
      ['rank', number],
      ['limit', '1000'],
    ],
    signal,
  );
};
