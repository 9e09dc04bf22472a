/** What the server can be asked. */

import type { CallDetail, CallPage, ComparisonAnswer, FunctionRanking, FunctionRow, ListedRun, Ranking, RankKey, Run, Statistic, StepRow } from '../lib/types';
import { decoded, type Grid, type GridAnswer } from '../lib/grid';
import type { Range, View } from '../lib/view';
import { get, type Query, type Request } from './http';

export const PAGE_SIZE = 50;

export const getRun = (signal: AbortSignal): Promise<Run> => get('run', [], signal);

export const getRanks = (statistic: Statistic, n: number, signal: AbortSignal): Promise<Ranking> =>
  get('ranks', [['statistic', statistic], ['n', String(n)]], signal);

export const getFunctionRanking = (statistic: Statistic, n: number, signal: AbortSignal): Promise<FunctionRanking> =>
  get('function-ranking', [['statistic', statistic], ['n', String(n)]], signal);

/** A piece of the grid of all ranks: by place of the ranks and by step, both to the last one named. */
export interface GridPiece {
  ranks?: Range;
  steps?: Range;
  rows?: number;
  columns?: number;
}

/** The grid of all ranks, or a piece of it in more detail. */
export async function getGrid(signal: AbortSignal, { ranks, steps, rows, columns }: GridPiece = {}): Promise<Grid> {
  const query: [string, string][] = [];
  if (ranks !== undefined) query.push(['ranks', ranks.join('..')]);
  if (steps !== undefined) query.push(['steps', steps.join('..')]);
  if (rows !== undefined) query.push(['rows', String(rows)]);
  if (columns !== undefined) query.push(['columns', String(columns)]);
  const answer = await get<GridAnswer>('grid', query, signal);
  return decoded(answer, Uint8Array.from(atob(answer.cells), (byte) => byte.charCodeAt(0)));
}

export const getFunctions = (signal: AbortSignal): Promise<{ functions: FunctionRow[]; total: number }> =>
  get('functions', [['limit', '50']], signal);

export const getCall = (id: string, signal: AbortSignal): Promise<CallDetail> =>
  get(`calls/${encodeURIComponent(id)}`, [], signal);

export const getRuns = (signal: AbortSignal): Promise<{ runs: ListedRun[] }> => get('runs', [], signal);

export const getComparison = (before: string, signal: AbortSignal): Promise<ComparisonAnswer> =>
  get('comparison', [['with', before]], signal);

export const getCalls = (view: View, signal: AbortSignal, limit = PAGE_SIZE): Promise<CallPage> =>
  get(...callsRequest(view, limit), signal);

export const callsRequest = (view: View, limit = PAGE_SIZE): Request => ['calls', [...callQuery(view), ['limit', String(limit)]]];

/** The filters and order of a view as the API names them. */
function callQuery(view: View): Query {
  const query: [string, string][] = [['sort', view.sort], ['descending', String(view.descending)]];
  if (view.function !== '') query.push(['function', view.function]);
  if (view.rank !== null) query.push(['rank', view.rank]);
  if (view.severity_us > 0) query.push(['min_severity_us', String(view.severity_us)]);
  if (view.steps !== null) query.push(['step_min', String(view.steps[0])], ['step_max', String(view.steps[1])]);
  if (view.cursor !== null) query.push(['cursor', view.cursor]);
  return query;
}

interface StepsAnswer {
  series: { rank: RankKey; steps: StepRow[] }[];
  next: number | null;
}

/** The whole history of some ranks, in as many answers as it takes. */
export async function getSteps(ranks: readonly RankKey[], signal: AbortSignal): Promise<Map<RankKey, StepRow[]>> {
  const found = new Map<RankKey, StepRow[]>(ranks.map((rank) => [rank, []]));
  let after: number | null = null;
  do {
    const query: [string, string][] = ranks.map((rank) => ['rank', rank]);
    if (after !== null) query.push(['after', String(after)]);
    const answer: StepsAnswer = await get<StepsAnswer>('steps', query, signal);
    for (const { rank, steps } of answer.series) found.get(rank)?.push(...steps);
    after = answer.next;
  } while (after !== null);
  return found;
}
