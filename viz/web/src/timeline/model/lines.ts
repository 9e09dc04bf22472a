/** The lines of a timeline: rows for each depth of each thread of each rank, from top to bottom, in CSS pixels. */

import { ANOMALY, firstEndingFrom, GROUPS, MERGED, spanAt, type Interval, type Link, type RankSpans, type SpanRow } from './spans';
import { between, type TimeAxis } from './timelineaxis';
import type { Range } from '../../shared/address/model/ranges';
import type { RankKey } from '../../shared/api/types';

export const ROW = 20;
const LANE_GAP = 6;
const GPU = GROUPS.indexOf('gpu');

/** One row of the picture. */
export interface Line {
  spans: RankSpans;
  row: SpanRow;
  /** Of each function, as an index of `GROUPS`: what runs on a GPU is of that group, whatever its name. */
  groups: Uint8Array;
  /** Positions along the axis. */
  begin: Float64Array;
  end: Float64Array;
  y: number;
}

/** The lines of one thread. */
export interface Lane {
  spans: RankSpans;
  thread: number;
  isGpu: boolean;
  y: number;
  height: number;
  /** Positions between which nothing was kept, and was analysed all the same. */
  notKept: Interval[];
  /** Positions between which nothing was analysed. */
  lost: Interval[];
}

export interface Scene {
  axis: TimeAxis;
  lanes: Lane[];
  lines: Line[];
  height: number;
}

/** One span of a scene. */
export interface Spot {
  line: Line;
  at: number;
}

/**
 * @param thread of the first rank that alone is wanted; null for all.
 */
export function sceneOf(ranks: readonly RankSpans[], axis: TimeAxis, thread: number | null): Scene {
  const lanes: Lane[] = [];
  const lines: Line[] = [];
  let y = 0;
  ranks.forEach((spans, place) => {
    for (const { thread: own, isGpu, known } of spans.threads) {
      const rows = spans.rows.filter((row) => row.thread === own);
      if (rows.length === 0 || (place === 0 && thread !== null && own !== thread && !isGpu)) continue;
      const lost = spans.lost.map((gap) => placed(gap, axis));
      const gaps = between(known, spans.from, spans.to).filter(([first, last]) => !spans.lost.some((gap) => gap[0] <= first && gap[1] >= last));
      lanes.push({ spans, thread: own, isGpu, y, height: rows.length * ROW, notKept: gaps.map((gap) => placed(gap, axis)), lost });
      const groups = isGpu ? spans.groups.map(() => GPU) : spans.groups;
      for (const row of rows) {
        lines.push({ spans, row, groups, begin: positions(row.begin, axis), end: positions(row.end, axis), y });
        y += ROW;
      }
      y += LANE_GAP;
    }
  });
  return { axis, lanes, lines, height: Math.max(0, y - LANE_GAP) };
}

const placed = ([first, last]: Interval, axis: TimeAxis): Interval => [axis.positionOf(first), axis.positionOf(last)];

const positions = (times: Float64Array, axis: TimeAxis): Float64Array => (axis.isFolded ? times.map(axis.positionOf) : times);

/** The line at a height; null between lanes. */
export function lineAt(scene: Scene, y: number): Line | null {
  return scene.lines.find((line) => y >= line.y && y < line.y + ROW) ?? null;
}

export function spotAt(scene: Scene, y: number, position: number, slack: number): Spot | null {
  const line = lineAt(scene, y);
  if (line === null) return null;
  const at = spanAt({ begin: line.begin, end: line.end, flags: line.row.flags }, position, slack);
  return at < 0 ? null : { line, at };
}

/** The call with an id, where it stands by itself. */
export function spotOf(scene: Scene, id: string | null): Spot | null {
  const [program, rank, step, row] = (id ?? '').split(':');
  const key = `${program}:${rank}`;
  for (const line of scene.lines) {
    if (line.spans.rank !== key) continue;
    for (let at = 0; at < line.row.row.length; at++) {
      if (line.row.row[at] === Number(row) && line.row.step[at] === Number(step) && !((line.row.flags[at] as number) & MERGED)) return { line, at };
    }
  }
  return null;
}

/** The innermost recorded call around a span: on the lines above, nearest first. */
export function parentOf(scene: Scene, { line, at }: Spot): Spot | null {
  const [begin, end] = [line.begin[at] as number, line.end[at] as number];
  const above = scene.lines.filter((one) => isSameThread(one, line) && one.row.depth < line.row.depth).sort((a, b) => b.row.depth - a.row.depth);
  for (const one of above) {
    const found = firstEndingFrom(one.end, end);
    if (found < one.begin.length && (one.begin[found] as number) <= begin) return { line: one, at: found };
  }
  return null;
}

const isSameThread = (one: Line, other: Line): boolean => one.spans === other.spans && one.row.thread === other.row.thread;

/** The span before or after one on its line. */
export function beside({ line, at }: Spot, way: number): Spot | null {
  const next = at + way;
  return next < 0 || next >= line.begin.length ? null : { line, at: next };
}

/** Lines of the same rank and thread, or of the next lane, one above or below; the span there nearest in time. */
export function across(scene: Scene, { line, at }: Spot, way: number): Spot | null {
  const next = scene.lines[scene.lines.indexOf(line) + way];
  if (next === undefined) return null;
  const middle = ((line.begin[at] as number) + (line.end[at] as number)) / 2;
  const found = Math.min(next.begin.length - 1, firstEndingFrom(next.end, middle));
  return { line: next, at: found };
}

/** The first span of the uppermost line that has one in a range. */
export function firstSpot(scene: Scene, shown: Range): Spot | null {
  for (const line of scene.lines) {
    const at = firstEndingFrom(line.end, shown[0]);
    if (at < line.begin.length && (line.begin[at] as number) <= shown[1]) return { line, at };
  }
  return null;
}

/** All abnormal spans of a scene, by time. */
export function anomaliesOf(scene: Scene): Spot[] {
  const found: Spot[] = [];
  for (const line of scene.lines) {
    line.row.flags.forEach((flags, at) => {
      if (flags & ANOMALY) found.push({ line, at });
    });
  }
  return found.sort((a, b) => (a.line.begin[a.at] as number) - (b.line.begin[b.at] as number));
}

/** The abnormal call after a position, or before it; the first or last of all where there is none. */
export function nextAnomaly(spots: readonly Spot[], from: number, way: number): Spot | null {
  const begins = spots.map(({ line, at }) => line.begin[at] as number);
  const index = way > 0 ? begins.findIndex((begin) => begin > from) : begins.findLastIndex((begin) => begin < from);
  return spots[index] ?? (way > 0 ? spots[0] : spots[spots.length - 1]) ?? null;
}

/** Abnormal calls that the ribbon shows with one mark. */
export interface RibbonMark {
  x: number;
  spots: Spot[];
}

const RIBBON_MARK = 14;

/** Marks of the ribbon: side by side where calls are nearer than that, with how many they are. */
export function ribbonOf(anomalies: readonly Spot[], xOf: (position: number) => number, width: number): RibbonMark[] {
  const marks: RibbonMark[] = [];
  for (const spot of anomalies) {
    const x0 = xOf(spot.line.begin[spot.at] as number);
    const x1 = xOf(spot.line.end[spot.at] as number);
    if (x1 < 0 || x0 > width) continue;
    const x = Math.min(width - 6, Math.max(6, x0));
    const last = marks[marks.length - 1];
    if (last !== undefined && x - last.x < RIBBON_MARK) last.spots.push(spot);
    else marks.push({ x, spots: [spot] });
  }
  return marks;
}

/** Where a link goes, in pixels; `to` is null where its other end is not in the picture. */
export interface Arrow {
  link: Link;
  rank: RankKey;
  x: number;
  y: number;
  to: { x: number; y: number } | null;
  /** Whether the head is where `x` and `y` are: a message that was received here. */
  isInward: boolean;
  /** How long the receiver was in the call that receives it before it was sent; 0 where it was not, or is not known. */
  waited_us: number;
}

/** Arrows of a picture; those of which no part is in it are left out, and each message is there once. */
export function arrowsOf(scene: Scene, xOf: (position: number) => number, width: number): Arrow[] {
  const lines = new Map(scene.lines.map((line) => [`${line.spans.rank} ${line.row.thread} ${line.row.depth}`, line]));
  const heights = new Map(scene.lanes.map((lane) => [`${lane.spans.rank} ${lane.thread}`, lane.y + lane.height - ROW / 2]));
  const place = (rank: RankKey, thread: number, depth: number): number | undefined => {
    const line = lines.get(`${rank} ${thread} ${depth}`);
    return line === undefined ? heights.get(`${rank} ${thread}`) : line.y + ROW / 2;
  };
  const arrows = new Map<string, Arrow>();
  for (const spans of new Set(scene.lanes.map((lane) => lane.spans))) {
    const program = spans.rank.split(':')[0];
    for (const link of spans.links) {
      const y = place(spans.rank, link.thread, link.depth);
      if (y === undefined) continue;
      const other = link.kind === 2 ? spans.rank : `${program}:${link.otherRank}`;
      const x = xOf(scene.axis.positionOf(link.time));
      const otherY = link.otherTime < 0 ? undefined : place(other, link.otherThread, link.otherDepth);
      const to = otherY === undefined ? null : { x: xOf(scene.axis.positionOf(link.otherTime)), y: otherY };
      if (Math.max(x, to?.x ?? x) < 0 || Math.min(x, to?.x ?? x) > width) continue;
      const ends = [`${spans.rank} ${link.time}`, `${other} ${link.otherTime}`];
      const isInward = link.kind === 1;
      const key =
        to === null
          ? `${spans.rank} ${link.kind} ${link.time} ${link.otherRank} ${link.tag} ${link.thread}`
          : `${link.tag} ${(isInward ? ends.reverse() : ends).join(' ')}`;
      if (arrows.has(key)) continue;
      const receiver = isInward ? lines.get(`${spans.rank} ${link.thread} ${link.depth}`) : lines.get(`${other} ${link.otherThread} ${link.otherDepth}`);
      const waited_us = link.kind === 2 || link.count > 1 || receiver === undefined || to === null ? 0 : waitOf(receiver, link);
      arrows.set(key, { link, rank: spans.rank, x, y, to, isInward, waited_us });
    }
  }
  return [...arrows.values()];
}

/** From the receiving call's entry until the message was sent. */
function waitOf({ row }: Line, link: Link): number {
  const [sent, received] = link.kind === 1 ? [link.otherTime, link.time] : [link.time, link.otherTime];
  const at = spanAt(row, received, 0);
  if (at < 0 || (row.flags[at] as number) & MERGED) return 0;
  return Math.max(0, sent - (row.begin[at] as number));
}

/** The arrow that passes within a distance of a place; null where none does. */
export function arrowAt(arrows: readonly Arrow[], x: number, y: number, within: number): Arrow | null {
  let [best, least]: [Arrow | null, number] = [null, within];
  for (const arrow of arrows) {
    const to = arrow.to ?? { x: arrow.x, y: arrow.y + (arrow.isInward ? -STUB : STUB) };
    const away = distance(x, y, arrow.x, arrow.y, to.x, to.y);
    if (away < least) [best, least] = [arrow, away];
  }
  return best;
}

/** Length of what is drawn of an arrow whose other end is elsewhere. */
export const STUB = 12;

function distance(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const share = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / length));
  return Math.hypot(x - x0 - share * dx, y - y0 - share * dy);
}
