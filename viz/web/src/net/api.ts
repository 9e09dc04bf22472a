/** What the server can be asked. */

import { decoded, type Grid } from '../lib/grid';
import { filterQuery } from '../lib/filters';
import { rowsOf } from '../lib/history';
import type { Range, View } from '../lib/view';
import type { Asked } from '../lib/timelineaxis';
import { get, type Request } from './http';
import type { CallDetail, CallPage, FunctionRanking, FunctionsAnswer, GapsAnswer, GridAnswer, MetadataAnswer, Points, Ranking, RankKey, Run, RunsAnswer, Statistic, StepColumnsAnswer, StepRow, StepSumsAnswer, StreamsAnswer, TimelineAnswer, Vitals } from '../shared/api/types';

export const PAGE_SIZE = 50;

export const getRun = (signal: AbortSignal): Promise<Run> => get('run', [], signal);

export const getRanks = (statistic: Statistic, n: number, signal: AbortSignal): Promise<Ranking> =>
  get(...rankingRequest(statistic, n), signal);

export const rankingRequest = (statistic: Statistic, n: number): Request => ['ranks', [['statistic', statistic], ['n', String(n)]]];

export const getFunctionRanking = (statistic: Statistic, n: number, signal: AbortSignal): Promise<FunctionRanking> =>
  get(...functionRankingRequest(statistic, n), signal);

export const functionRankingRequest = (statistic: Statistic, n: number): Request => ['function-ranking', [['statistic', statistic], ['n', String(n)]]];

/** A piece of the grid of all ranks: by place of the ranks and by step, both to the last one named. */
export interface GridPiece {
  ranks?: Range;
  steps?: Range;
  rows?: number;
  columns?: number;
}

export function gridRequest({ ranks, steps, rows, columns }: GridPiece): Request {
  const query: [string, string][] = [];
  if (ranks !== undefined) query.push(['ranks', ranks.join('..')]);
  if (steps !== undefined) query.push(['steps', steps.join('..')]);
  if (rows !== undefined) query.push(['rows', String(rows)]);
  if (columns !== undefined) query.push(['columns', String(columns)]);
  return ['grid', query];
}

/** The grid of all ranks, or a piece of it in more detail. */
export async function getGrid(signal: AbortSignal, piece: GridPiece = {}): Promise<Grid> {
  const answer = await get<GridAnswer>(...gridRequest(piece), signal);
  const bytes = atob(answer.cells);
  const cells = new Uint8Array(bytes.length);
  // Up to half a million: a function that is called for each takes ten times as long.
  for (let at = 0; at < bytes.length; at++) cells[at] = bytes.charCodeAt(at);
  return decoded(answer, cells);
}

export const getFunctions = (signal: AbortSignal): Promise<FunctionsAnswer> =>
  get('functions', [['limit', '50']], signal);

/** All that have a name, as many as one answer holds, for a search. */
export const getAllFunctions = (signal: AbortSignal): Promise<FunctionsAnswer> =>
  get('functions', [['limit', '1000']], signal);

export const getCall = (id: string, signal: AbortSignal): Promise<CallDetail> =>
  get(`calls/${encodeURIComponent(id)}`, [], signal);

export const getRuns = (signal: AbortSignal): Promise<RunsAnswer> => get('runs', [], signal);

export const getCalls = (view: View, zero_us: number, signal: AbortSignal, limit = PAGE_SIZE): Promise<CallPage> =>
  get(...callsRequest(view, zero_us, limit), signal);

/** A page of the calls of a view. */
export const callsRequest = (view: View, zero_us: number, limit = PAGE_SIZE): Request => {
  const query: [string, string][] = [['sort', view.sort], ['descending', String(view.descending)], ['limit', String(limit)]];
  if (view.cursor !== null) query.push(['cursor', view.cursor]);
  return ['calls', [...filterQuery(view, zero_us), ...query]];
};

export const getPoints = (view: View, zero_us: number, signal: AbortSignal): Promise<Points> =>
  get(...pointsRequest(view, zero_us), signal);

export const pointsRequest = (view: View, zero_us: number): Request => ['points', filterQuery(view, zero_us)];

export const getVitals = (signal: AbortSignal): Promise<Vitals> => get('vitals', [], signal);

export const getGaps = (signal: AbortSignal): Promise<GapsAnswer> => get('gaps', [], signal);

export const getStreams = (view: View, signal: AbortSignal): Promise<StreamsAnswer> => get(...streamsRequest(view), signal);

export function streamsRequest({ streamOrder, streamState, streamCursor }: View): Request {
  const query: [string, string][] = [['sort', streamOrder], ['limit', String(PAGE_SIZE)]];
  if (streamState !== null) query.push(['state', streamState]);
  if (streamCursor !== null) query.push(['cursor', streamCursor]);
  return ['streams', query];
}

/** Steps of all ranks together, by 8 ** level. */
export const getStepSums = (level: number, signal: AbortSignal): Promise<StepSumsAnswer> =>
  get('step-sums', [['level', String(level)], ['limit', '1000']], signal);

export const getMetadata = (rank: RankKey, signal: AbortSignal): Promise<MetadataAnswer> => {
  const [program = '', number = ''] = rank.split(':');
  return get('metadata', [['program', program], ['rank', number], ['limit', '1000']], signal);
};

/** The history of some ranks from a step to another, in as many answers as it takes. */
export async function getSteps(ranks: readonly RankKey[], signal: AbortSignal, [first, last]: Range = [0, Infinity]): Promise<Map<RankKey, StepRow[]>> {
  const found = new Map<RankKey, StepRow[]>(ranks.map((rank) => [rank, []]));
  let after: number | null = first > 0 ? first - 1 : null;
  do {
    const query: [string, string][] = ranks.map((rank) => ['rank', rank]);
    if (after !== null) query.push(['after', String(after)]);
    const answer: StepColumnsAnswer = await get<StepColumnsAnswer>('step-columns', query, signal);
    for (const columns of answer.series) found.get(columns.rank)?.push(...rowsOf(columns).filter(([step]) => step <= last));
    after = answer.next;
  } while (after !== null && after < last);
  return found;
}

/** Calls of a rank as they happened; `wanted` null: all of them. */
export const timelineRequest = (rank: RankKey, partners: readonly RankKey[], wanted: Asked | null, columns: number): Request => {
  const query: [string, string][] = [['rank', rank], ...partners.map((partner): [string, string] => ['with', partner])];
  if (wanted !== null) query.push(['from_us', String(wanted.from)], ['to_us', String(wanted.to)]);
  return ['timeline', [...query, ['columns', String(wanted?.columns ?? columns)]]];
};

export const getTimeline = (rank: RankKey, partners: readonly RankKey[], wanted: Asked | null, columns: number, signal: AbortSignal): Promise<TimelineAnswer> =>
  get(...timelineRequest(rank, partners, wanted, columns), signal);
