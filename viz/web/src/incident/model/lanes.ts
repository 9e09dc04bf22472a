/** Ranks and times in the picture of an incident, and the waits in it. */

import { spotOf, type Scene } from '../../timeline/model/lines';
import { isWait } from './chain';
import type { Range } from '../../shared/address/model/ranges';
import { MOST_PARTNERS } from '../../shared/address/model/view';
import type { Incident, RankKey } from '../../shared/api/types';
import type { Shade } from '../../timeline/timelinepainter';

/** Most ranks in the picture; the table of calls has all. */
export const MOST_LANES = MOST_PARTNERS + 1;
const MARGIN = 0.06;

/** All ranks concerned: the origin's rank first, then those that lost most. */
export function ranksOf({ program, rank, waited, losses = [] }: Incident): RankKey[] {
  const origin = rank === null ? [] : [rank];
  return [...new Set([...origin, ...losses.map((one) => one.rank), ...waited.map((one) => one.rank)])].map((number) => `${program}:${number}`);
}

/** Times from before the first call until after the last one, in µs since the epoch. */
export function timesOf({ begin_us, end_us }: Pick<Incident, 'begin_us' | 'end_us'>): Range {
  const margin = Math.max(1, Math.round((end_us - begin_us) * MARGIN));
  return [begin_us - margin, end_us + margin];
}

/** Areas of the lanes in which their ranks waited. */
export function waitsOf(scene: Scene, { program, waited }: Incident): Shade[] {
  return waited.filter(isWait).flatMap((one) => {
    const rank = `${program}:${one.rank}`;
    const thread = spotOf(scene, one.call_id)?.line.row.thread;
    const lane = scene.lanes.find(({ spans, thread: own }) => spans.rank === rank && (thread === undefined || own === thread));
    if (lane === undefined) return [];
    return [{ y: lane.y, height: lane.height, first: scene.axis.positionOf(one.entry_us), last: scene.axis.positionOf(one.exit_us) }];
  });
}
