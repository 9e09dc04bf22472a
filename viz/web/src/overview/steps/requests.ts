/** Requests for the steps of ranks. */

import type { Range } from '../../shared/address/model/ranges';
import { get } from '../../shared/api/http';
import type { Request } from '../../shared/api/request';
import type { RankKey, StepColumnsAnswer, StepRow } from '../../shared/api/types';
import { rowsOf } from './model/history';

/** Where the time of some ranks' threads went over these steps; of all where none are named. */
export function stepTimesRequest(ranks: readonly RankKey[], steps: Range | null): Request {
  const query = ranks.map((rank) => ['rank', rank] as const);
  const among =
    steps === null
      ? []
      : ([
          ['step_min', String(steps[0])],
          ['step_max', String(steps[1])],
        ] as const);
  return ['step-times', [...query, ...among]];
}

/** Read the history of some ranks between two steps, in as many requests as it takes. */
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
