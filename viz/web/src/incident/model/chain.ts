/** Who waited for whom, from the origin on; and of what the time was lost, in words. */

import { shorten } from '../../shared/names/names';
import { duration, exact, plural } from '../../shared/units/units';
import type { Incident, Part, Waited } from '../../shared/api/types';

export interface Consequence {
  waited: Waited;
  /** How many waits lie between it and the origin. */
  depth: number;
}

/** All that the origin held up: behind each call those that waited for it, those that lost most first. */
export function chainOf({ call_id: origin, waited }: Pick<Incident, 'call_id' | 'waited'>): Consequence[] {
  const known = new Set(waited.map((one) => one.call_id));
  const behind = new Map<string, Waited[]>();
  for (const one of waited) {
    // Whom it waited for may be the origin, or nobody who is on record.
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
  // Those that wait for each other in a circle hang on no origin.
  for (const one of waited) {
    if (seen.has(one.call_id)) continue;
    seen.add(one.call_id);
    chain.push({ waited: one, depth: 0 });
    follow(one.call_id, 1);
  }
  return chain;
}

/** Whether its origin is no call, but what ranks lost by their node. */
export const isLoss = ({ call_id, kind }: Pick<Incident, 'call_id' | 'kind'>): boolean => call_id === '' && (kind === 'stopped' || kind === 'waited for core');

const MOST_NAMED = 4;

/** What lost the time, where that is no recorded call. */
export function originText(incident: Pick<Incident, 'call_id' | 'kind' | 'losses' | 'rank'>): string {
  const { rank, losses = [] } = incident;
  if (!isLoss(incident))
    return rank === null ? 'The call that lost the time is not on record.' : `Rank ${rank} came last; nothing abnormal of it is on record.`;
  const each = losses.map((one) => `rank ${one.rank} for ${duration(one.lost_us)} of ${duration(one.end_us - one.begin_us)}`);
  return `Kept from running by the node, whatever calls it was in: ${each.slice(0, MOST_NAMED).join(', ')}${each.length > MOST_NAMED ? ', …' : ''}`;
}

const WAITING: readonly string[] = ['late sender', 'late receiver', 'late at collective', 'waited for GPU', 'GPU queue full', 'not explained'];

/** Whether a call waited for another one, and did not lose its time by itself. */
export const isWait = ({ kind }: Pick<Waited, 'kind'>): boolean => WAITING.includes(kind);

export function consequenceText({ rank, operation, lost_us, kind, is_flagged = true }: Waited): string {
  const name = shorten(operation, 40).text;
  return `rank ${rank} ${isWait({ kind }) ? 'waited' : 'lost'} ${duration(lost_us)} in ${name}${is_flagged ? '' : ' (not flagged)'}`;
}

/** Where one part of the excess was lost. */
export function partText({ kind, function: name, rank, is_matched, by = '', count = 0 }: Part): string {
  const what = name === '' ? '' : shorten(name, 40).text;
  const who = rank === null ? 'a rank that is not known' : `rank ${rank}`;
  const meanwhile = `${what === '' ? '' : `, which was in ${what}`}${is_matched ? '' : ' (by when it lost time; no message shows it)'}`;
  switch (kind) {
    case 'in child':
      return `inside ${what}`;
    case 'more calls':
      return `more calls of ${what} than usual`;
    case 'late child':
      return `before it called ${what}`;
    case 'late sender':
      return `waiting for a message from ${who}${meanwhile}`;
    case 'late receiver':
      return `until ${who} took its message${meanwhile}`;
    case 'late at collective':
      return `waiting for ${who}, which came last${meanwhile}`;
    case 'stopped':
      return 'its process was stopped';
    case 'waited for core':
      if (by.startsWith('the CPU limit')) return `${by} kept it from running`;
      return `its core was taken by ${by === '' ? 'somebody who is not known' : by}`;
    case 'page faults':
      return `the kernel gave it memory, in ${exact(count)} page faults`;
    case 'memory pressure':
      return 'memory was short';
    case 'migration':
      return 'it was moved from core to core';
    case 'storage':
      return 'it waited for storage';
    case 'network':
      return 'it waited for a socket or a pipe';
    case 'held lock':
      return `it waited for a lock${by === '' ? '' : ` while its thread ${by} ran`}`;
    case 'system time':
      return 'in the kernel, for its system calls';
    case 'GPU busy':
      return `${by} had more to do than usual${count === 0 ? '' : `, with ${plural(count, 'program')} of others on it`}`;
    case 'GPU throttled':
      return `${by} was slowed down, for heat or by its power supply`;
    case 'waited for GPU':
      return `until ${what === '' ? 'what it had to do' : what} was over on the GPU`;
    case 'GPU queue full':
      return `until the GPU had room for more, behind ${what}`;
    case 'counter out of range':
      return `${by} rose by ${exact(count)} times as much as usual`;
    case 'own code':
      return 'in its own code: it waited for nothing that is on record';
    case 'not explained':
      return 'not explained by what is on record';
    default:
      return [kind, what].filter((text) => text !== '').join(': ');
  }
}
