/** Scene of a timeline: lines for each depth of each thread of each rank, from top to bottom, in CSS pixels. */

import { ANOMALY, firstEndingFrom, GROUPS, LAUNCHED, MERGED, spanAt, type Interval, type Link, type RankSpans, type SpanRow } from './spans';
import { between, type TimeAxis } from './timelineaxis';
import type { Range } from '../../shared/address/model/ranges';
import type { RankKey } from '../../shared/api/types';

export const ROW = 20;
const LANE_GAP = 6;
const GPU = GROUPS.indexOf('gpu');

/** One line of the picture: the spans at one depth. */
export interface Line {
  spans: RankSpans;
  row: SpanRow;
  /** Group of each function, as an index of `GROUPS`; on a GPU all functions have its group. */
  groups: Uint8Array;
  /** Begins and ends of the spans, as positions along the axis. */
  begin: Float64Array;
  end: Float64Array;
  y: number;
}

/** Lines of one thread. */
export interface Lane {
  spans: RankSpans;
  thread: number;
  isGpu: boolean;
  y: number;
  height: number;
  /** Ranges of positions in which calls were analysed but not kept. */
  notKept: Interval[];
  /** Ranges of positions in which nothing was analysed. */
  lost: Interval[];
}

export interface Scene {
  axis: TimeAxis;
  lanes: Lane[];
  lines: Line[];
  height: number;
}

/** One span of a scene, by its line and its index. */
export interface Spot {
  line: Line;
  at: number;
}

/**
 * @param thread the only thread of the first rank to show; null for all.
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

/** Line at a height; null between lanes. */
export function lineAt(scene: Scene, y: number): Line | null {
  return scene.lines.find((line) => y >= line.y && y < line.y + ROW) ?? null;
}

export function spotAt(scene: Scene, y: number, position: number, slack: number): Spot | null {
  const line = lineAt(scene, y);
  if (line === null) return null;
  const at = spanAt({ begin: line.begin, end: line.end, flags: line.row.flags }, position, slack);
  return at < 0 ? null : { line, at };
}

/** Span of the call with an id; null where it is not here, or merged with others. */
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

/** Innermost recorded call around a span, found on the lines above. */
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

/** Span before or after another one on its line. */
export function beside({ line, at }: Spot, way: number): Spot | null {
  const next = at + way;
  return next < 0 || next >= line.begin.length ? null : { line, at: next };
}

/** Span nearest in time on the line above or below, which may belong to the next lane. */
export function across(scene: Scene, { line, at }: Spot, way: number): Spot | null {
  const next = scene.lines[scene.lines.indexOf(line) + way];
  if (next === undefined) return null;
  const middle = ((line.begin[at] as number) + (line.end[at] as number)) / 2;
  const found = Math.min(next.begin.length - 1, firstEndingFrom(next.end, middle));
  return { line: next, at: found };
}

/** First span in a range, on the uppermost line that has one. */
export function firstSpot(scene: Scene, shown: Range): Spot | null {
  for (const line of scene.lines) {
    const at = firstEndingFrom(line.end, shown[0]);
    if (at < line.begin.length && (line.begin[at] as number) <= shown[1]) return { line, at };
  }
  return null;
}

/** All abnormal spans of a scene, in the order of time. */
export function anomaliesOf(scene: Scene): Spot[] {
  const found: Spot[] = [];
  for (const line of scene.lines) {
    line.row.flags.forEach((flags, at) => {
      if (flags & ANOMALY) found.push({ line, at });
    });
  }
  return found.sort((a, b) => (a.line.begin[a.at] as number) - (b.line.begin[b.at] as number));
}

/** Abnormal call after or before a position; without one, the first or the last of all. */
export function nextAnomaly(spots: readonly Spot[], from: number, way: number): Spot | null {
  const begins = spots.map(({ line, at }) => line.begin[at] as number);
  const index = way > 0 ? begins.findIndex((begin) => begin > from) : begins.findLastIndex((begin) => begin < from);
  return spots[index] ?? (way > 0 ? spots[0] : spots[spots.length - 1]) ?? null;
}

/** Abnormal calls that share one mark on the ribbon. */
export interface RibbonMark {
  x: number;
  spots: Spot[];
}

const RIBBON_MARK = 14;

/** Marks of the ribbon; calls that are too near each other share one, with their number. */
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

/** Arrow of a link, in pixels; `to` is null where the other end is not in the picture. */
export interface Arrow {
  link: Link;
  rank: RankKey;
  x: number;
  y: number;
  to: { x: number; y: number } | null;
  /** Whether the head of the arrow is at `x` and `y`: the message was received here. */
  isInward: boolean;
  /** Time that the receiving call had waited when the message was sent; 0 where it had not, or where this is not known. */
  waited_us: number;
}

/** Arrows of a picture, without those outside it; each message has one. */
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

/** Time from the entry of the receiving call until the message was sent. */
function waitOf({ row }: Line, link: Link): number {
  const [sent, received] = link.kind === 1 ? [link.otherTime, link.time] : [link.time, link.otherTime];
  const at = spanAt(row, received, 0);
  if (at < 0 || (row.flags[at] as number) & MERGED) return 0;
  return Math.max(0, sent - (row.begin[at] as number));
}

/** Least wait, as a share of the times that are shown, whose message is drawn without being asked for. */
const TELLING_WAIT = 0.01;

/**
 * Arrows that are worth their ink: of messages that somebody waited for, and of the calls that the user looks at. All
 * messages of a whole run would be a curtain before the calls.
 */
export function tellingArrows(arrows: readonly Arrow[], shown_us: number, looked: readonly (Spot | null)[]): Arrow[] {
  return arrows.filter((arrow) => arrow.waited_us >= TELLING_WAIT * shown_us || looked.some((spot) => spot !== null && isOf(arrow, spot)));
}

/** Whether one end of an arrow lies within a call. */
function isOf({ link, rank }: Arrow, { line, at }: Spot): boolean {
  const [begin, end] = [line.row.begin[at] as number, line.row.end[at] as number];
  const isWithin = (time: number, thread: number): boolean => thread === line.row.thread && time >= begin && time <= end;
  const other = link.kind === LAUNCHED ? rank : `${rank.split(':')[0]}:${link.otherRank}`;
  const isHere = rank === line.spans.rank && isWithin(link.time, link.thread);
  return isHere || (other === line.spans.rank && isWithin(link.otherTime, link.otherThread));
}

/** Arrow within a distance of a position; null for none. */
export function arrowAt(arrows: readonly Arrow[], x: number, y: number, within: number): Arrow | null {
  let [best, least]: [Arrow | null, number] = [null, within];
  for (const arrow of arrows) {
    const to = arrow.to ?? { x: arrow.x, y: arrow.y + (arrow.isInward ? -STUB : STUB) };
    const away = distance(x, y, arrow.x, arrow.y, to.x, to.y);
    if (away < least) [best, least] = [arrow, away];
  }
  return best;
}

/** Drawn length of an arrow whose other end is not in the picture. */
export const STUB = 12;

function distance(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const share = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / length));
  return Math.hypot(x - x0 - share * dx, y - y0 - share * dy);
}
