/** Layout of lost steps: one line per rank, steps to the right. Lengths in CSS pixels. */

import type { Gaps, GapsAnswer } from '../../shared/api/types';
import { wholeTicks } from '../../shared/charts/model/ticks';

export const LINE_PX = 16;
const LABEL_PX = 64;
const AXIS_PX = 20;
const BAR_PX = 10;
/** Least width, so that a single step among thousands is seen. */
const LEAST_PX = 2;
const TICK_PX = 80;

export interface LostSteps {
  of: Gaps;
  first: number;
  last: number;
  x: number;
  width: number;
}

export interface LossLine {
  of: Gaps;
  y: number;
  lost: LostSteps[];
}

export interface LossLayout {
  width: number;
  height: number;
  left: number;
  right: number;
  lines: LossLine[];
  ticks: { x: number; step: number }[];
  barPx: number;
}

export function lossLayout({ ranks, last_step }: GapsAnswer, width: number): LossLayout {
  const [left, right] = [LABEL_PX, Math.max(LABEL_PX + 1, width - 8)];
  const steps = (last_step ?? 0) + 1;
  const x = (step: number): number => left + ((right - left) * step) / steps;
  const lines = ranks.map((of, row) => ({
    of,
    y: row * LINE_PX + (LINE_PX - BAR_PX) / 2,
    lost: of.gaps.map(([first, last]) => ({ of, first, last, x: x(first), width: Math.max(LEAST_PX, x(last + 1) - x(first)) })),
  }));
  const marks = wholeTicks(0, steps - 1, (right - left) / TICK_PX).map((step) => ({ x: x(step), step }));
  return { width, height: ranks.length * LINE_PX + AXIS_PX, left, right, lines, ticks: marks, barPx: BAR_PX };
}

/** Return the lost steps at a position: the nearest ones of the line, within a few pixels. */
export function lostAt(layout: LossLayout, x: number, y: number): LostSteps | null {
  const line = layout.lines[Math.floor(y / LINE_PX)];
  const distance = (one: LostSteps): number => Math.max(one.x - x, x - one.x - one.width, 0);
  const nearest = line?.lost.reduce<LostSteps | null>((best, one) => (best === null || distance(one) < distance(best) ? one : best), null);
  return nearest && distance(nearest) <= 4 ? nearest : null;
}

/** Return the lost steps that an arrow key leads to: along the line, or the nearest on the next line. */
export function nextLost(layout: LossLayout, from: LostSteps | null, key: string): LostSteps | null {
  const first = layout.lines[0]?.lost[0] ?? null;
  if (from === null) return first;
  const row = layout.lines.findIndex((line) => line.of === from.of);
  const own = layout.lines[row]?.lost ?? [];
  const along = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (along !== undefined) return own[own.indexOf(from) + along] ?? from;
  const across = { ArrowDown: 1, ArrowUp: -1 }[key];
  const other = layout.lines[row + (across ?? 0)]?.lost ?? [];
  return other.reduce<LostSteps>((best, one) => (best === from || Math.abs(one.x - from.x) < Math.abs(best.x - from.x) ? one : best), from);
}
