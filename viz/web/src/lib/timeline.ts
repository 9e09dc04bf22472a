/** The window of a call as bars: who called it, its neighbours, and where nothing is known. Times in µs. */

import type { Group } from './tokens';
import type { CallRecord } from './types';

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

export interface Timeline {
  bars: Bar[];
  start: number;
  end: number;
  /** Between these every call of the thread at these depths is in the picture; outside, calls were not kept. */
  knownStart: number;
  knownEnd: number;
  depths: number[];
}

const GROUPS: readonly [Group, RegExp][] = [
  ['mpi', /^P?MPI[_ ]/],
  ['gpu', /^(?:cuda|hip|cu[A-Z]|OpenACC|Kokkos::|void Kokkos)|kernel_launch/],
  ['io', /(?:^|_)(?:f?read|f?write|pread|pwrite|open|close|fsync|lseek)(?:64|v)?(?:\(\))?$|^(?:IO::|BP\d|SST|adios)/i],
  ['runtime', /^(?:\.TAU|taupreload|\[PTHREAD\]|pthread_|OpenMP|omp_)/],
  ['other', /^(?:addr=|UNRESOLVED)/],
];

/** What kind of work a function does, by its name. */
export function groupOf(name: string): Group {
  return GROUPS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'app';
}

/** Lay out the window of a record, with the callers of the call above it. */
export function timelineOf(record: CallRecord): Timeline {
  const closed = record.window.filter((call) => call.exit_us > 0);
  const times = closed.flatMap((call) => [call.entry_us, call.exit_us]);
  const knownStart = Math.min(record.entry_us, ...record.window.map((call) => call.entry_us));
  const knownEnd = Math.max(record.exit_us, ...times);
  const margin = Math.max(1, (knownEnd - knownStart) * 0.04);
  const [start, end] = [knownStart - margin, knownEnd + margin];
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
  record.call_stack.forEach((frame, above) => add(frame, record.depth - above));
  for (const call of record.window) add(call, call.depth);
  const shown = [...bars.values()].sort((a, b) => a.start - b.start || a.depth - b.depth);
  const depths = [...new Set(shown.map((bar) => bar.depth))].sort((a, b) => a - b);
  return { bars: shown, start, end, knownStart, knownEnd, depths };
}
