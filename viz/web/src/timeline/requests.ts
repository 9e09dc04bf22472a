/** Requests for timelines. */

import { get } from '../shared/api/http';
import type { Request } from '../shared/api/request';
import type { RankKey, TimelineAnswer } from '../shared/api/types';
import type { Asked } from './model/timelineaxis';

/** Calls of a rank over time; all of them without `wanted`. */
export const timelineRequest = (rank: RankKey, partners: readonly RankKey[], wanted: Asked | null, columns: number): Request => {
  const query: [string, string][] = [['rank', rank], ...partners.map((partner): [string, string] => ['with', partner])];
  if (wanted !== null) query.push(['from_us', String(wanted.from)], ['to_us', String(wanted.to)]);
  return ['timeline', [...query, ['columns', String(wanted?.columns ?? columns)]]];
};

export const getTimeline = (rank: RankKey, partners: readonly RankKey[], wanted: Asked | null, columns: number, signal: AbortSignal): Promise<TimelineAnswer> =>
  get(...timelineRequest(rank, partners, wanted, columns), signal);
