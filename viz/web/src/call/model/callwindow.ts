/** Window of a call as bars: its callers, its neighbours, and where nothing is known. Times in µs. */

import type { Group } from '../../shared/charts/model/tokens';
import { groupOf } from '../../shared/names/groups';
import type { CallRecord } from '../../shared/api/types';

export interface Bar {
  id: string;
  function: string;
  depth: number;
  start: number;
  end: number;
  /** Whether it had not ended when it was recorded; `end` is then the end of the picture. */
  open: boolean;
  isAnomaly: boolean;
  isSelf: boolean;
  group: Group;
}

/** Callers that are drawn: a stack with lost exits has thousands, and a canvas is at most 32,767 pixels high. */
const MOST_CALLERS = 40;

export interface Timeline {
  bars: Bar[];
  /** Number of outer callers that are not drawn. */
  callersLeftOut: number;
  start: number;
  end: number;
  /** Times between which every call of the thread at these depths is in the picture; outside, calls were not kept. */
  knownStart: number;
  knownEnd: number;
  depths: number[];
}

/** Lay out the window of a record, with the callers of the call above it. */
export function timelineOf(record: CallRecord): Timeline {
  const closed = record.window.filter((call) => call.exit_us > 0);
  const times = closed.flatMap((call) => [call.entry_us, call.exit_us]);
  // Neighbours are kept in the order of entry: calls that began after the last of them were not kept.
  const entries = [record.entry_us, ...record.window.map((call) => call.entry_us)];
  const [knownStart, knownEnd] = [Math.min(...entries), Math.max(...entries)];
  const last = Math.max(record.exit_us || record.entry_us + record.inclusive_us, ...times);
  const margin = Math.max(1, (last - knownStart) * 0.04);
  const [start, end] = [knownStart - margin, last + margin];
  const bars = new Map<string, Bar>();
  const add = (call: { id: string; function: string; entry_us: number; exit_us: number; is_anomaly: boolean }, depth: number): void => {
    const open = call.exit_us === 0;
    bars.set(call.id, {
      id: call.id,
      function: call.function,
      depth,
      start: call.entry_us,
      end: open ? end : call.exit_us,
      open,
      isAnomaly: call.is_anomaly,
      isSelf: call.id === record.id,
      group: groupOf(call.function),
    });
  };
  record.call_stack.slice(0, MOST_CALLERS + 1).forEach((frame, above) => add(frame, record.depth - above));
  for (const call of record.window) add(call, call.depth);
  const shown = [...bars.values()].sort((a, b) => a.start - b.start || a.depth - b.depth);
  const depths = [...new Set(shown.map((bar) => bar.depth))].sort((a, b) => a - b);
  const callersLeftOut = Math.max(0, record.call_stack.length - MOST_CALLERS - 1);
  return { bars: shown, callersLeftOut, start, end, knownStart, knownEnd, depths };
}

/** Times before and after the entry that either picture needs, so that both have one scale. */
export function commonTimes(own: Timeline, ownEntry: number, twin: Timeline | null, twinEntry: number): { before: number; after: number } {
  const pictures: [Timeline, number][] = twin
    ? [
        [own, ownEntry],
        [twin, twinEntry],
      ]
    : [[own, ownEntry]];
  return {
    before: Math.max(...pictures.map(([picture, entry]) => entry - picture.start)),
    after: Math.max(...pictures.map(([picture, entry]) => picture.end - entry)),
  };
}
