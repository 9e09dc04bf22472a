/** Requests for one function, and for the call paths, counters and metadata of a rank. */

import { get } from './http';
import type { Query, Request } from './request';
import type { BesideAnswer, CallPage, CountersAnswer, FunctionByRank, FunctionDetail, MetadataAnswer, PathsAnswer, RankKey, Totals } from './types';

/** A function, by its full name and its program. */
export interface Subject {
  program: number;
  name: string;
}

/** Number of calls in the list of the worst. */
export const WORST = 20;
/** Number of ranks in the list of those that lost most. */
export const MOST_RANKS = 50;
const MOST = '1000';

/** A function whose program may not be known. */
export type Named = Omit<Subject, 'program'> & { program: number | null };

const ofProgram = (program: number | null): Query => (program === null ? [] : [['program', String(program)]]);
const ofFunction = ({ program, name }: Subject): Query => [['function', name], ...ofProgram(program)];
const ofRank = (program: number, rank: number): Query => [
  ['program', String(program)],
  ['rank', String(rank)],
  ['limit', MOST],
];

export const callRequest = (id: string): Request => [`calls/${encodeURIComponent(id)}`, []];

export const besideRequest = (id: string): Request => [`calls/${encodeURIComponent(id)}/node`, []];
export const getBeside = (id: string, signal: AbortSignal): Promise<BesideAnswer> => get(...besideRequest(id), signal);

export const functionRequest = ({ program, name }: Named): Request => ['function', [['name', name], ...ofProgram(program)]];
export const getFunction = (named: Named, signal: AbortSignal): Promise<FunctionDetail> => get(...functionRequest(named), signal);

export const functionByRankRequest = ({ program, name }: Subject): Request => ['function-by-rank', [['name', name], ...ofProgram(program)]];
export const getFunctionByRank = (subject: Subject, signal: AbortSignal): Promise<FunctionByRank> => get(...functionByRankRequest(subject), signal);

export const trendRequest = (subject: Subject, by: 'step' | 'time'): Request => ['totals', [['by', by], ...ofFunction(subject), ['limit', MOST]]];
export const getTrend = (subject: Subject, by: 'step' | 'time', signal: AbortSignal): Promise<Totals> => get(...trendRequest(subject, by), signal);

export const ranksRequest = (subject: Subject): Request => ['totals', [['by', 'rank'], ...ofFunction(subject), ['limit', String(MOST_RANKS)]]];
export const getRanks = (subject: Subject, signal: AbortSignal): Promise<Totals> => get(...ranksRequest(subject), signal);

/** All call paths, over all ranks or of one rank. */
export const allPathsRequest = (rank: RankKey | null): Request => ['paths', rank === null ? [] : [['rank', rank]]];
export const getAllPaths = (rank: RankKey | null, signal: AbortSignal): Promise<PathsAnswer> => get(...allPathsRequest(rank), signal);

export const pathsRequest = (subject: Subject): Request => ['paths', ofFunction(subject)];
export const getPaths = (subject: Subject, signal: AbortSignal): Promise<PathsAnswer> => get(...pathsRequest(subject), signal);

export const worstRequest = (subject: Subject): Request => ['calls', [...ofFunction(subject), ['sort', 'severity_us'], ['limit', String(WORST)]]];
export const getWorst = (subject: Subject, signal: AbortSignal): Promise<CallPage> => get(...worstRequest(subject), signal);

export const countersRequest = (program: number, rank: number): Request => ['counters', ofRank(program, rank)];
export const getCounters = (program: number, rank: number, signal: AbortSignal): Promise<CountersAnswer> => get(...countersRequest(program, rank), signal);

export const metadataRequest = (program: number, rank: number): Request => ['metadata', ofRank(program, rank)];
export const getMetadata = (program: number, rank: number, signal: AbortSignal): Promise<MetadataAnswer> => get(...metadataRequest(program, rank), signal);
