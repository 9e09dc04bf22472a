/** Layout of the chart of steps, by time lost or by anomalies. Lengths in CSS pixels. */

import { durationUnit, exact, inUnit } from '../../../shared/units/units';
import { gaps, lowerBound, type History } from './history';
import type { Range } from '../../../shared/address/model/ranges';
import type { Measure } from '../../../shared/address/model/view';
import type { RankKey, StepRow } from '../../../shared/api/types';
import { roundTicks, wholeTicks } from '../../../shared/charts/model/ticks';

export interface Series {
  rank: RankKey;
  slot: number;
  rows: History;
  /** Step from which on the rows are complete. */
  from: number;
}

export interface Point {
  x: number;
  y: number;
  series: Series;
  row: StepRow;
}

export interface Gap {
  x0: number;
  x1: number;
  y: number;
  series: Series;
  steps: Range;
}

export interface Frame {
  width: number;
  height: number;
  /** Steps at the left and right edge of the plot. */
  range: Range;
  top: number;
  left: number;
  right: number;
  /** Position of zero. */
  base: number;
  maximum: number;
}

/** Event at a time, in µs since the epoch. */
export interface Marked {
  id: string;
  time_us: number;
}

export interface Layout extends Frame {
  points: Point[];
  gaps: Gap[];
  xTicks: { x: number; text: string }[];
  yTicks: { y: number; text: string }[];
  /** Unit of the vertical axis; empty for counts. */
  unit: string;
  /** Begins of findings about published quantities. */
  marks: { x: number; id: string }[];
  /** Middle of each series' row in the strip of coverage. */
  rows: Map<RankKey, number>;
}

export const STRIP_ROW = 6;
const MARGIN = { left: 36, right: 12, top: 8, axis: 18 };
/** Room above the plot for the unit, where there is one. */
const UNIT = 10;

/** Lay out a chart; without a zoom it shows all steps. */
export function layout(series: readonly Series[], measure: Measure, zoom: Range | null, width: number, height: number, marked: readonly Marked[] = []): Layout {
  const range = zoom ?? extent(series);
  const strip = series.length * STRIP_ROW + 6;
  const frame: Frame = {
    width,
    height,
    range,
    left: MARGIN.left,
    right: width - MARGIN.right,
    top: MARGIN.top + (measure === 'lost' ? UNIT : 0),
    base: height - MARGIN.axis - strip,
    maximum: 1,
  };
  const most = highest(series, measure, range);
  frame.maximum = measure === 'lost' ? 1.1 * (most || 1) : ceiling(most);
  const rows = new Map(series.map((one, index) => [one.rank, frame.base + 6 + (index + 0.5) * STRIP_ROW]));
  return {
    ...frame,
    points: series.flatMap((one, index) => points(one, measure, frame, aside(frame, index, series.length))),
    gaps: series.flatMap((one) => gapsOf(one, frame, rows.get(one.rank) as number)),
    xTicks: wholeTicks(range[0], range[1], Math.max(2, Math.floor((frame.right - frame.left) / 64))).map((step) => ({
      x: xOf(frame, step),
      text: exact(step),
    })),
    ...scale(frame, measure, most),
    marks: marked.flatMap((one) => markOf(one, series, frame)),
    rows,
  };
}

/** Mark of an event, at the first shown step that ended after it. */
function markOf({ id, time_us }: Marked, series: readonly Series[], frame: Frame): Layout['marks'] {
  const steps = series.flatMap(({ rows }) => rows.find((row) => row[2] >= time_us)?.[0] ?? []);
  const step = Math.min(...steps);
  return step >= frame.range[0] && step <= frame.range[1] ? [{ x: xOf(frame, step), id }] : [];
}

/** Column of a step's row that gives its height. */
const COLUMN: Record<Measure, 4 | 5> = { anomalies: 4, lost: 5 };

function scale(frame: Frame, measure: Measure, most: number): Pick<Layout, 'yTicks' | 'unit'> {
  const room = Math.max(1, Math.floor((frame.base - frame.top) / 28));
  const tick = (value: number, text: string): { y: number; text: string } => ({ y: yOf(frame, value), text });
  if (measure === 'anomalies') return { yTicks: wholeTicks(0, frame.maximum, room).map((value) => tick(value, exact(value))), unit: '' };
  if (most === 0) return { yTicks: [tick(0, '0')], unit: '' };
  const unit = durationUnit(most);
  const size = unit === 'µs' ? 1 : unit === 'ms' ? 1e3 : 1e6;
  const values = roundTicks(0, frame.maximum / size, room).map((value) => value * size);
  return { yTicks: values.map((value) => tick(value, value === 0 ? '0' : inUnit(value, unit))), unit: unit === 'clock' ? 'm:ss' : unit };
}

export function xOf(frame: Frame, step: number): number {
  const steps = frame.range[1] - frame.range[0] + 1;
  return frame.left + ((step - frame.range[0] + 0.5) / steps) * (frame.right - frame.left);
}

export function yOf(frame: Frame, value: number): number {
  return frame.base - (value / frame.maximum) * (frame.base - frame.top);
}

/** Step at a horizontal position. */
export function stepAt(frame: Frame, x: number): number {
  const steps = frame.range[1] - frame.range[0] + 1;
  const step = frame.range[0] + Math.floor(((x - frame.left) / (frame.right - frame.left)) * steps);
  return Math.min(frame.range[1], Math.max(frame.range[0], step));
}

/** Mark nearest to a position, within `reach`, and the topmost one of several; null for none. */
export function nearest(points: readonly Point[], x: number, y: number, reach = 12): Point | null {
  let best: Point | null = null;
  let distance = reach * reach;
  for (const point of points) {
    const squared = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (squared <= distance) [best, distance] = [point, squared];
  }
  return best;
}

/** Zoom around a step: `factor` below 1 shows fewer steps. */
export function zoomed(range: Range, around: number, factor: number): Range {
  const before = Math.floor((around - range[0]) * factor);
  const after = Math.floor((range[1] - around) * factor);
  const widened = factor > 1 ? 1 : 0;
  return [Math.max(0, around - before - widened), around + after + widened];
}

function extent(series: readonly Series[]): Range {
  let last = 0;
  for (const { rows } of series) last = Math.max(last, rows[rows.length - 1]?.[0] ?? 0);
  return [Math.min(last, ...series.map((one) => one.from)), last];
}

function highest(series: readonly Series[], measure: Measure, range: Range): number {
  let most = 0;
  for (const { rows } of series) {
    for (let at = lowerBound(rows, range[0]); at < rows.length; at++) {
      const row = rows[at] as StepRow;
      if (row[0] > range[1]) break;
      most = Math.max(most, row[COLUMN[measure]]);
    }
  }
  return most;
}

/** Upper end of the vertical axis, a little above the highest mark. */
function ceiling(most: number): number {
  return most < 4 ? most + 1 : Math.ceil(most * 1.1);
}

/** Horizontal offset of a rank within a step, where there is room: otherwise equal counts would hide each other. */
function aside(frame: Frame, index: number, among: number): number {
  const step = xOf(frame, 1) - xOf(frame, 0);
  return (index - (among - 1) / 2) * Math.min(6, (step * 0.8) / among);
}

function points(series: Series, measure: Measure, frame: Frame, dx: number): Point[] {
  const found: Point[] = [];
  const width = xOf(frame, 1) - xOf(frame, 0);
  const zero = xOf(frame, 0) + dx;
  let pixel = NaN;
  const drawn: number[] = [];
  for (let at = lowerBound(series.rows, frame.range[0]); at < series.rows.length; at++) {
    const row = series.rows[at] as StepRow;
    if (row[0] > frame.range[1]) break;
    const x = zero + row[0] * width;
    const y = yOf(frame, row[COLUMN[measure]]);
    // Where a pixel stands for several steps, equal ones are drawn once; steps without anomalies look different.
    const height = row[4] > 0 ? Math.round(2 * y) : -1;
    if (Math.round(x) !== pixel) {
      pixel = Math.round(x);
      drawn.length = 0;
    }
    if (drawn.includes(height)) continue;
    drawn.push(height);
    found.push({ x, y, series, row });
  }
  return found;
}

function gapsOf(series: Series, frame: Frame, y: number): Gap[] {
  const half = (frame.right - frame.left) / (frame.range[1] - frame.range[0] + 1) / 2;
  return gaps(series.rows, series.from)
    .filter(([first, last]) => last >= frame.range[0] && first <= frame.range[1])
    .map((steps) => ({
      x0: Math.max(frame.left, xOf(frame, steps[0]) - half),
      x1: Math.min(frame.right, xOf(frame, steps[1]) + half),
      y,
      series,
      steps,
    }));
}
