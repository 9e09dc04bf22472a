/** Positions of the calls in the chart, which marks hide others, and which one is nearest. Lengths in CSS pixels. */

import { AXIS_KINDS } from '../../shared/address/model/axes';
import { layOutAlong, type Placed, type PlacedAxis } from './callaxis';
import { isFaster, type Wording } from './callpoints';
import type { Span } from '../../shared/address/model/ranges';
import type { View } from '../../shared/address/model/view';
import type { PointColumns, Points } from '../../shared/api/types';

export interface CallLayout {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  base: number;
  x: Float32Array;
  y: Float32Array;
  size: Uint8Array;
  kind: Uint8Array;
  /** Indices of the marks in the order in which they are drawn, the worst call last. */
  drawn: Uint32Array;
  /** Number of normal calls that are not drawn, because another one stands within the same 2 × 2 pixels. */
  covered: number;
  /** Number of calls outside the ranges of the axes. */
  outside: number;
  /** Opacity of the smallest anomalies: among very many, only the larger ones stand out. */
  opacity: number;
  xAxis: PlacedAxis;
  yAxis: PlacedAxis;
}

export const NORMAL = 0;
export const SLOWER = 1;
export const FASTER = 2;

/** Axes that the chart is to have. */
export type Wanted = Pick<View, 'x' | 'y' | 'xScale' | 'yScale' | 'xRange' | 'yRange'>;

const MARGIN = { top: 10, right: 14, base: 34, named: 156, numbered: 64 };
const CELL = 2;
/** Number of marks from which on they cover each other all over the chart. */
const CROWD = 5_000;
/** Distance between calls that stand side by side. */
const LANE = 8;

/** Lay out the chart. */
export function layoutCalls(points: Points, wanted: Wanted, width: number, height: number, wording: Wording): CallLayout {
  const isNamed = AXIS_KINDS[wanted.y].kind === 'names';
  const left = isNamed ? MARGIN.named : MARGIN.numbered;
  const [right, top, base] = [Math.max(left + 1, width - MARGIN.right), MARGIN.top, Math.max(MARGIN.top + 1, height - MARGIN.base)];
  const across = layOutAlong(points, { axis: wanted.x, scale: wanted.xScale, range: wanted.xRange }, left, right, true, wording);
  // Numbers grow upwards, names are read downwards.
  const [from, to] = isNamed ? [top, base] : [base, top];
  const up = layOutAlong(points, { axis: wanted.y, scale: wanted.yScale, range: wanted.yRange }, from, to, false, wording);
  const { kind, size } = marks(points, wording);
  if (across.unit > 0 && up.unit > 0) spread(across, up);
  else if (up.unit > 0) stack(up.at, across.at, up.unit);
  else if (across.unit > 0) stack(across.at, up.at, across.unit);
  const { drawn, covered, outside } = visible(points.columns, across.at, up.at, width, height);
  const frame = { width, height, left, right, top, base };
  const opacity = drawn.length > CROWD ? 0.4 : 1;
  return { ...frame, x: across.at, y: up.at, size, kind, drawn, covered, outside, opacity, xAxis: across.axis, yAxis: up.axis };
}

/** Return the mark nearest to a position, within `reach`, and the topmost one of several; -1 for none. */
export function nearestCall(layout: CallLayout, x: number, y: number, reach = 12): number {
  let [best, distance] = [-1, reach * reach];
  for (const at of layout.drawn) {
    const squared = ((layout.x[at] as number) - x) ** 2 + ((layout.y[at] as number) - y) ** 2;
    if (squared <= distance) [best, distance] = [at, squared];
  }
  return best;
}

/** Whether a call is in the chart. */
export const isShown = (layout: CallLayout, at: number): boolean => at >= 0 && !Number.isNaN((layout.x[at] as number) + (layout.y[at] as number));

export type Direction = 'ArrowRight' | 'ArrowLeft' | 'ArrowUp' | 'ArrowDown';

/** Return the nearest mark in a direction, preferring one straight ahead; the same mark where there is none. */
export function neighbourCall(layout: CallLayout, from: number, direction: Direction): number {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[direction] as [number, number];
  const [x0, y0] = [layout.x[from] as number, layout.y[from] as number];
  let [best, least] = [from, Infinity];
  for (const at of layout.drawn) {
    const [x, y] = [(layout.x[at] as number) - x0, (layout.y[at] as number) - y0];
    const along = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along <= 0) continue;
    const far = along + 2 * aside;
    if (far < least) [best, least] = [at, far];
  }
  return best;
}

/** A rectangle of the chart. */
export interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** Ranges of the axes with which a rectangle fills the chart; axes of names do not change. */
export function rangesOf({ xAxis, yAxis }: CallLayout, { x0, y0, x1, y1 }: Box): Pick<View, 'xRange' | 'yRange'> {
  return { xRange: rangeOf(xAxis, x0, x1), yRange: rangeOf(yAxis, y0, y1) };
}

function rangeOf({ valueAt }: PlacedAxis, from: number, to: number): Span | null {
  if (valueAt === null) return null;
  const [a, b] = [valueAt(from), valueAt(to)];
  return a < b ? [a, b] : [b, a];
}

/** Rectangle around a position that is `factor` times as large as the chart. */
export function boxAround({ left, right, top, base }: CallLayout, x: number, y: number, factor: number): Box {
  return { x0: x - (x - left) * factor, x1: x + (right - x) * factor, y0: y - (y - top) * factor, y1: y + (base - y) * factor };
}

/** The chart's rectangle, moved sideways by a share of its width. */
export function boxAside({ left, right, top, base }: CallLayout, share: number): Box {
  const by = (right - left) * share;
  return { x0: left + by, x1: right + by, y0: top, y1: base };
}

/** Spread calls at the same position around it, where both axes are discrete: steps by the golden angle fill the area evenly. */
function spread(across: Placed, up: Placed): void {
  const [roomX, roomY] = [Math.min(across.unit, 120) * 0.7, Math.min(up.unit, 120) * 0.7];
  const before = new Map<string, number>();
  for (let at = 0; at < across.at.length; at++) {
    const [x, y] = [across.at[at] as number, up.at[at] as number];
    const number = before.get(`${x} ${y}`) ?? 0;
    before.set(`${x} ${y}`, number + 1);
    across.at[at] = x + (((number * 0.7548777 + 0.5) % 1) - 0.5) * roomX;
    up.at[at] = y + (((number * 0.5698403 + 0.5) % 1) - 0.5) * roomY;
  }
}

/** Put calls of one row that would cover each other side by side, the first in the middle, as far as there is room. */
function stack(rows: Float32Array, along: Float32Array, unit: number): void {
  const lanes = Math.max(1, Math.floor((unit * 0.8) / LANE));
  const before = new Map<number, number>();
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at] as number;
    const cell = Math.round(row) * 65_536 + Math.floor((along[at] as number) / LANE);
    const number = before.get(cell) ?? 0;
    before.set(cell, number + 1);
    const lane = number % lanes;
    rows[at] = row + Math.ceil(lane / 2) * (lane % 2 === 0 ? LANE : -LANE);
  }
}

/** Kind and size of each mark: 6, 8 or 11 pixels, by the time lost relative to the most time lost. */
function marks({ columns }: Points, wording: Wording): { kind: Uint8Array; size: Uint8Array } {
  const most = columns.severity_us[0] ?? 0;
  const kind = new Uint8Array(columns.rank.length);
  const size = new Uint8Array(columns.rank.length).fill(6);
  const [inclusive, exclusive, expected] = [columns.inclusive_us, columns.exclusive_us, columns.expected_us];
  for (let at = 0; at < kind.length; at++) {
    if (!columns.is_anomaly[at]) continue;
    const call = { inclusive_us: inclusive[at] as number, exclusive_us: exclusive[at] as number, expected_us: expected[at] as number };
    kind[at] = isFaster(call, wording.metric) ? FASTER : SLOWER;
    size[at] = sizeOf(columns.severity_us[at] as number, most);
  }
  return { kind, size };
}

export function sizeOf(severity_us: number, most_us: number): number {
  return severity_us * 3 >= most_us ? 11 : severity_us * 10 >= most_us ? 8 : 6;
}

/** Order of drawing: one normal call of each cell, and over them all anomalies, the worst on top. */
function visible(
  { is_anomaly }: PointColumns,
  x: Float32Array,
  y: Float32Array,
  width: number,
  height: number,
): Pick<CallLayout, 'drawn' | 'covered' | 'outside'> {
  const columns = Math.ceil(width / CELL) + 1;
  const taken = new Uint8Array(columns * (Math.ceil(height / CELL) + 1));
  const normal: number[] = [];
  const abnormal: number[] = [];
  let covered = 0;
  for (let at = 0; at < x.length; at++) {
    const [px, py] = [x[at] as number, y[at] as number];
    if (Number.isNaN(px) || Number.isNaN(py)) continue;
    const cell = Math.floor(py / CELL) * columns + Math.floor(px / CELL);
    if (is_anomaly[at]) abnormal.push(at);
    else if (taken[cell] === 1) covered++;
    else {
      taken[cell] = 1;
      normal.push(at);
    }
  }
  const drawn = Uint32Array.from([...normal, ...abnormal.reverse()]);
  return { drawn, covered, outside: x.length - drawn.length - covered };
}
