/** Chain of an incident: which calls waited for which, from the origin on. */

import { shorten } from '../../shared/names/names';
import { duration } from '../../shared/units/units';
import { causeOf } from './causes';
import type { Incident, Waited } from '../../shared/api/types';

export interface Consequence {
  waited: Waited;
  /** Number of waits between this call and the origin. */
  depth: number;
}

/** Return all calls that the origin held up: each is followed by those that waited for it, the most time lost first. */
export function chainOf({ call_id: origin, waited }: Pick<Incident, 'call_id' | 'waited'>): Consequence[] {
  const known = new Set(waited.map((one) => one.call_id));
  const behind = new Map<string, Waited[]>();
  for (const one of waited) {
    // It may have waited for the origin, or for a call that is not on record.
    const before = known.has(one.for_call_id) && one.for_call_id !== one.call_id ? one.for_call_id : origin;
    behind.set(before, [...(behind.get(before) ?? []), one]);
  }
  const chain: Consequence[] = [];
  const seen = new Set<string>();
  const follow = (call: string, depth: number): void => {
    for (const one of behind.get(call) ?? []) {
      if (seen.has(one.call_id)) continue;
      seen.add(one.call_id);
      chain.push({ waited: one, depth });
      follow(one.call_id, depth + 1);
    }
  };
  follow(origin, 0);
  // Calls that wait for each other in a circle are not reached from the origin.
  for (const one of waited) {
    if (seen.has(one.call_id)) continue;
    seen.add(one.call_id);
    chain.push({ waited: one, depth: 0 });
    follow(one.call_id, 1);
  }
  return chain;
}

/** Whether the origin is not a call, but time in which the node kept ranks from running. */
export const isLoss = ({ call_id, kind }: Pick<Incident, 'call_id' | 'kind'>): boolean => call_id === '' && causeOf(kind).isHeldUp;

const MOST_NAMED = 4;

/** Origin of an incident that is not a recorded call, in words. */
export function originText(incident: Pick<Incident, 'call_id' | 'kind' | 'losses' | 'rank'>): string {
  const { rank, losses = [] } = incident;
  if (!isLoss(incident)) return rank === null ? 'The call that lost the time is not on record.' : `Rank ${rank} was late; no abnormal call of it is on record.`;
  const each = losses.map((one) => `rank ${one.rank} for ${duration(one.lost_us)} of ${duration(one.end_us - one.begin_us)}`);
  return `The node kept these ranks from running, whatever calls they were in: ${each.slice(0, MOST_NAMED).join(', ')}${each.length > MOST_NAMED ? ', …' : ''}`;
}

/** Whether a call waited for another one and did not lose the time by itself. */
export const isWait = ({ kind }: Pick<Waited, 'kind'>): boolean => causeOf(kind).isWait;

export function consequenceText({ rank, operation, lost_us, kind, is_flagged = true }: Waited): string {
  const name = shorten(operation, 40).text;
  return `rank ${rank} ${isWait({ kind }) ? 'waited' : 'lost'} ${duration(lost_us)} in ${name}${is_flagged ? '' : ' (not flagged)'}`;
}
