/** Layout of the time of threads over steps: stacked areas in the colours of the budget. Lengths in CSS pixels. */

import { PARTS, type PartLook } from '../../model/budgetparts';
import { durationUnit, exact, inUnit } from '../../../shared/units/units';
import type { Range } from '../../../shared/address/model/ranges';
import type { StepTime, StepTimes } from '../../../shared/api/types';
import { roundTicks, wholeTicks } from '../../../shared/charts/model/ticks';
import { xOf, type Frame } from './steplayout';

/** Event at a time, in µs since the epoch, and where it leads. */
export interface Happened {
  id: string;
  time_us: number;
  text: string;
}

export interface Bar {
  x0: number;
  x1: number;
  time: StepTime;
  /** First and last step. */
  steps: Range;
  /** Number of steps that were analysed on some rank. */
  count: number;
}

export interface TimeLayout extends Frame {
  bars: Bar[];
  /** Outline of each part of the time, as an SVG path. */
  areas: { look: PartLook; path: string }[];
  /** Steps that nothing is known of. */
  gaps: { x0: number; x1: number; steps: Range }[];
  marks: { x: number; at: readonly Happened[] }[];
  xTicks: { x: number; text: string }[];
  yTicks: { y: number; text: string }[];
  unit: string;
}

const MARGIN = { left: 36, right: 12, top: 18, axis: 18 };
/** Distance below which marks of events are one. */
const TOGETHER = 9;

/** Time of all threads in a stretch of steps, in µs. */
export const totalOf = (time: StepTime): number => PARTS.reduce((sum, part) => sum + part.of(time), 0);

/** Lay out a chart; without a zoom it shows all steps. */
export function timeLayout(
  { length, ranks, times }: StepTimes,
  zoom: Range | null,
  width: number,
  height: number,
  happened: readonly Happened[] = [],
): TimeLayout {
  const [first, last] = [times[0], times[times.length - 1]];
  const range: Range = zoom ?? [first?.step ?? 0, (last?.step ?? 0) + length - 1];
  const frame: Frame = { width, height, range, left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, base: height - MARGIN.axis, maximum: 1 };
  const bars = times.flatMap((time): Bar[] => {
    const steps: Range = [Math.max(range[0], time.step), Math.min(range[1], time.step + length - 1)];
    if (steps[0] > steps[1]) return [];
    const count = Math.max(1, Math.min(length, Math.ceil(time.analysed / Math.max(1, ranks))));
    return [{ x0: edge(frame, steps[0]), x1: edge(frame, steps[1] + 1), time, steps, count }];
  });
  const most = Math.max(0, ...bars.map((bar) => totalOf(bar.time) / bar.count));
  frame.maximum = 1.05 * (most || 1);
  return {
    ...frame,
    bars,
    areas: areasOf(frame, bars),
    gaps: gapsOf(frame, bars),
    marks: marksOf(bars, happened),
    xTicks: wholeTicks(range[0], range[1], Math.max(2, Math.floor((frame.right - frame.left) / 64))).map((step) => ({
      x: xOf(frame, step),
      text: exact(step),
    })),
    ...scaleOf(frame, most),
  };
}

/** Bar at a horizontal position, or the nearest one. */
export function barAt(bars: readonly Bar[], x: number): number | null {
  let [best, distance] = [-1, Infinity];
  bars.forEach((bar, at) => {
    const away = x < bar.x0 ? bar.x0 - x : Math.max(0, x - bar.x1);
    if (away < distance) [best, distance] = [at, away];
  });
  return best < 0 ? null : best;
}

/** Left edge of a step. */
function edge(frame: Frame, step: number): number {
  const half = (xOf(frame, 1) - xOf(frame, 0)) / 2;
  return xOf(frame, step) - half;
}

function areasOf(frame: Frame, bars: readonly Bar[]): TimeLayout['areas'] {
  const below = bars.map(() => 0);
  return PARTS.flatMap(({ look, of }) => {
    let path = '';
    bars.forEach((bar, at) => {
      const us = of(bar.time) / bar.count;
      if (us <= 0) return;
      const [y0, y1] = [below[at] as number, (below[at] as number) + us].map((value) => frame.base - (value / frame.maximum) * (frame.base - frame.top)) as [
        number,
        number,
      ];
      below[at] = (below[at] as number) + us;
      path += `M${bar.x0.toFixed(1)} ${y0.toFixed(1)}H${bar.x1.toFixed(1)}V${y1.toFixed(1)}H${bar.x0.toFixed(1)}Z`;
    });
    return path === '' ? [] : [{ look, path }];
  });
}

function gapsOf(frame: Frame, bars: readonly Bar[]): TimeLayout['gaps'] {
  return bars.slice(1).flatMap((bar, at) => {
    const before = (bars[at] as Bar).steps[1];
    const steps: Range = [before + 1, bar.steps[0] - 1];
    return steps[0] > steps[1] ? [] : [{ x0: edge(frame, steps[0]), x1: edge(frame, steps[1] + 1), steps }];
  });
}

/** Marks at the stretches in which events began; those that would cover each other are one. */
function marksOf(bars: readonly Bar[], happened: readonly Happened[]): TimeLayout['marks'] {
  const found: { x: number; at: Happened[] }[] = [];
  for (const one of [...happened].sort((a, b) => a.time_us - b.time_us)) {
    const bar = bars.find(({ time }) => one.time_us <= time.end_us);
    if (bar === undefined || (bar === bars[0] && one.time_us < bar.time.start_us)) continue;
    const span = Math.max(1, bar.time.end_us - bar.time.start_us);
    const x = bar.x0 + (bar.x1 - bar.x0) * Math.min(1, Math.max(0, (one.time_us - bar.time.start_us) / span));
    const last = found[found.length - 1];
    if (last !== undefined && x - last.x < TOGETHER) last.at.push(one);
    else found.push({ x, at: [one] });
  }
  return found;
}

function scaleOf(frame: Frame, most: number): Pick<TimeLayout, 'yTicks' | 'unit'> {
  const unit = durationUnit(most);
  const size = { µs: 1, ms: 1e3, s: 1e6, clock: 1e6 }[unit];
  const room = Math.max(1, Math.floor((frame.base - frame.top) / 28));
  const values = roundTicks(0, frame.maximum / size, room).map((value) => value * size);
  return {
    yTicks: values.map((value) => ({ y: frame.base - (value / frame.maximum) * (frame.base - frame.top), text: value === 0 ? '0' : inUnit(value, unit) })),
    unit: unit === 'clock' ? 'm:ss' : unit,
  };
}
