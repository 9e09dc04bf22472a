/** The window of a call as bars: who called it, its neighbours, and where nothing is known. Times in µs. */

import type { Group } from '../../shared/charts/model/tokens';
import { groupOf } from '../../shared/names/groups';
import type { CallRecord } from '../../shared/api/types';

export interface Bar {
  id: string;
  function: string;
  depth: number;
  start: number;
  end: number;
  /** Still open when the record was made: `end` is where the picture ends. */
  open: boolean;
  isAnomaly: boolean;
  isSelf: boolean;
  group: Group;
}

/** A canvas holds 32,767 pixels, a stack with lost EXITs thousands of calls. */
const MOST_CALLERS = 40;

export interface Timeline {
  bars: Bar[];
  /** Outer callers for which there was no room. */
  callersLeftOut: number;
  start: number;
  end: number;
  /** Between these every call of the thread at these depths is in the picture; outside, calls were not kept. */
  knownStart: number;
  knownEnd: number;
  depths: number[];
}

/** Lay out the window of a record, with the callers of the call above it. */
export function timelineOf(record: CallRecord): Timeline {
  const closed = record.window.filter((call) => call.exit_us > 0);
  const times = closed.flatMap((call) => [call.entry_us, call.exit_us]);
  // Neighbours are kept in order of entry: what began after the last of them was not kept.
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

/** Times before and after the entry that both pictures need, so that they share one scale. */
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
