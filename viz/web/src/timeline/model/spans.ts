/** Calls of a rank as spans: rows of typed arrays in the order of time, without overlaps. Times in µs since the epoch. */

import { summed } from '../../shared/units/columns';
import { GROUP_FILLS, type Group } from '../../shared/charts/model/tokens';
import type { Judged, RankKey, TimelineAnswer, TimelineLinks, TimelineRow } from '../../shared/api/types';
import { groupOf } from '../../shared/names/groups';

/** Bits of a span's flags; the server also sends 2, for calls that are recorded. */
export const ANOMALY = 1;
export const OPEN = 4;
export const DOUBTFUL = 8;
export const MERGED = 16;

/** Kinds of links; the server also sends 0, for messages that were sent. */
export const RECEIVED = 1;
export const LAUNCHED = 2;

export const GROUPS = Object.keys(GROUP_FILLS) as Group[];

export type Interval = [first: number, last: number];

/** Calls at one depth of one thread. */
export interface SpanRow {
  thread: number;
  depth: number;
  begin: Float64Array;
  end: Float64Array;
  /** Exclusive runtime; -1 where it is not known. */
  exclusive: Float64Array;
  /** Index of the function's name among those of the rank. */
  function: Int32Array;
  step: Int32Array;
  row: Int32Array;
  count: Int32Array;
  flags: Uint8Array;
}

/** A message or a launch, or several of one kind between the same lines. */
export interface Link {
  kind: number;
  time: number;
  thread: number;
  depth: number;
  /** Time of the other end; -1 where it is not known. */
  otherTime: number;
  otherRank: number;
  otherThread: number;
  otherDepth: number;
  tag: number;
  bytes: number;
  count: number;
}

/** Calls and links of one rank in a range of time. */
export interface RankSpans {
  rank: RankKey;
  source: 'trace' | 'store';
  isRecorded: boolean;
  from: number;
  to: number;
  extent: Interval;
  /** Length below which calls are merged. */
  column_us: number;
  functions: string[];
  /** Group of each function, as an index of `GROUPS`. */
  groups: Uint8Array;
  threads: { thread: number; isGpu: boolean; known: Interval[] }[];
  rows: SpanRow[];
  links: Link[];
  /** Judged calls, by step and row. */
  judged: Map<string, Judged>;
  lost: Interval[];
  leftOut: number;
}

export function decodeTimeline(rank: RankKey, answer: TimelineAnswer): RankSpans {
  return {
    rank,
    source: answer.source,
    isRecorded: answer.is_recorded,
    from: answer.from_us,
    to: answer.to_us,
    extent: answer.extent_us,
    column_us: answer.column_us,
    functions: answer.functions,
    groups: Uint8Array.from(answer.functions, (name) => GROUPS.indexOf(groupOf(name))),
    threads: answer.threads.map(({ thread, is_gpu, known_us }) => ({ thread, isGpu: is_gpu, known: known_us })),
    rows: answer.rows.map(decodeRow),
    links: decodeLinks(answer.links),
    judged: new Map(answer.judged.map((call) => [`${call.step}:${call.row}`, call])),
    lost: answer.lost_us,
    leftOut: answer.left_out,
  };
}

function decodeRow(answered: TimelineRow): SpanRow {
  const begin = summed(new Float64Array(answered.begins_us));
  return {
    thread: answered.thread,
    depth: answered.depth,
    begin,
    end: begin.map((at, index) => at + (answered.runtimes_us[index] as number)),
    exclusive: new Float64Array(answered.exclusives_us),
    function: new Int32Array(answered.functions),
    step: new Int32Array(answered.steps),
    row: summed(new Int32Array(answered.rows)),
    count: new Int32Array(answered.counts),
    flags: new Uint8Array(answered.flags),
  };
}

function decodeLinks(answered: TimelineLinks): Link[] {
  const column = (name: keyof TimelineLinks, at: number): number => answered[name][at] as number;
  return answered.kinds.map((kind, at) => ({
    kind,
    time: column('times_us', at),
    thread: column('threads', at),
    depth: column('depths', at),
    otherTime: column('other_us', at),
    otherRank: column('other_ranks', at),
    otherThread: column('other_threads', at),
    otherDepth: column('other_depths', at),
    tag: column('tags', at),
    bytes: column('sizes_bytes', at),
    count: column('counts', at),
  }));
}

/** Index of the first span that ends at a time or later; the row's length where none does. */
export function firstEndingFrom(ends: Float64Array, time: number): number {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ends[middle] as number) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Index of the span of a row at a time; -1 where there is none within `slack`.
 *
 * Of several within `slack`, an abnormal one is preferred, because it may be too narrow to be pointed at.
 */
export function spanAt({ begin, end, flags }: Pick<SpanRow, 'begin' | 'end' | 'flags'>, time: number, slack: number): number {
  let best = -1;
  let least = Infinity;
  for (let at = firstEndingFrom(end, time - slack); at < begin.length && (begin[at] as number) <= time + slack; at++) {
    const away = Math.max(0, (begin[at] as number) - time, time - (end[at] as number)) - ((flags[at] as number) & ANOMALY ? 2 * slack : 0);
    if (away < least) [best, least] = [at, away];
  }
  return best;
}

/** Id of a span's call, or of the longest call of a merged span. */
export const idOf = (rank: RankKey, row: SpanRow, at: number): string => `${rank}:${row.step[at]}:${row.row[at]}`;

export const judgedOf = (spans: RankSpans, row: SpanRow, at: number): Judged | undefined => spans.judged.get(`${row.step[at]}:${row.row[at]}`);
