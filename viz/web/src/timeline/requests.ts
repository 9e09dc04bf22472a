/** Requests for timelines. */

import { get } from '../shared/api/http';
import type { Request } from '../shared/api/request';
import type { Range } from '../shared/address/model/ranges';
import type { RankKey, SelectionAnswer, TimelineAnswer } from '../shared/api/types';
import type { Asked } from './model/timelineaxis';

/** Calls of a rank over time; all of them without `wanted`. */
export const timelineRequest = (rank: RankKey, partners: readonly RankKey[], wanted: Asked | null, columns: number): Request => {
  const query: [string, string][] = [['rank', rank], ...partners.map((partner): [string, string] => ['with', partner])];
  if (wanted !== null) query.push(['from_us', String(wanted.from)], ['to_us', String(wanted.to)]);
  return ['timeline', [...query, ['columns', String(wanted?.columns ?? columns)]]];
};

export const getTimeline = (rank: RankKey, partners: readonly RankKey[], wanted: Asked | null, columns: number, signal: AbortSignal): Promise<TimelineAnswer> =>
  get(...timelineRequest(rank, partners, wanted, columns), signal);

/** Functions of a selected time on some lines. */
export const selectionRequest = ([first, last]: Range, lines: readonly string[]): Request => [
  'timeline/functions',
  [...lines.map((line): [string, string] => ['line', line]), ['from_us', String(first)], ['to_us', String(last)]],
];

export const getSelection = (times: Range, lines: readonly string[], signal: AbortSignal): Promise<SelectionAnswer> =>
  get(...selectionRequest(times, lines), signal);
