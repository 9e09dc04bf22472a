/** Painter of the chart of steps. */

import type { Layout, Point } from './model/steplayout';
import { STRIP_ROW, xOf } from './model/steplayout';
import { stamp } from '../../shared/charts/model/stamps';
import { shapeOf, type Theme } from '../../shared/charts/model/tokens';
import type { Range } from '../../shared/address/model/ranges';
import { colour, FONT, hatch, slotColour } from '../../shared/charts/canvas';
import { maskOf, paste, rasterFor } from '../../shared/charts/stampimages';
import type { RankKey } from '../../shared/api/types';

const MARK_PX = 8;
const ZERO_PX = 3;
const ZERO = { path: 'M-1 -1H1V1H-1Z', hollow: false };

export interface Emphasis {
  /** Rank that is emphasised. */
  rank: RankKey | null;
  point: Point | null;
  /** Steps to which the lists of calls are limited. */
  steps: Range | null;
  /** Steps that are being selected. */
  brush: Range | null;
}

export function paintScatter(context: CanvasRenderingContext2D, layout: Layout, emphasis: Emphasis, theme: Theme): void {
  paintSteps(context, layout, emphasis.brush ?? emphasis.steps, theme);
  paintAxes(context, layout, theme);
  for (const gap of layout.gaps) {
    hatch(context, 'lost', gap.x0, gap.y - STRIP_ROW / 2 + 0.5, gap.x1 - gap.x0, STRIP_ROW - 1, theme);
  }
  paintEvents(context, layout, theme);
  paintMarks(context, layout.points, emphasis.rank, theme);
  if (emphasis.point) ring(context, emphasis.point, theme);
}

/** Marks of the steps: those without anomalies are small, and below the others. */
function paintMarks(context: CanvasRenderingContext2D, points: readonly Point[], rank: RankKey | null, theme: Theme): void {
  const scale = context.getTransform().a;
  const raster = rasterFor(context);
  for (const counts of [false, true]) {
    for (const { x, y, series, row } of points) {
      if (row[4] > 0 !== counts) continue;
      const { path, hollow } = counts ? shapeOf(series.slot) : ZERO;
      const mask = maskOf(path, hollow, (counts ? MARK_PX : ZERO_PX) * scale);
      stamp(raster, mask, x * scale, y * scale, slotColour(series.slot, theme), rank === null || rank === series.rank ? 1 : 0.25);
    }
  }
  paste(context, raster.image);
}

function ring(context: CanvasRenderingContext2D, point: Point, theme: Theme): void {
  context.strokeStyle = colour('accent', theme);
  context.lineWidth = 2;
  context.beginPath();
  context.arc(point.x, point.y, 8, 0, 2 * Math.PI);
  context.stroke();
}

function paintSteps(context: CanvasRenderingContext2D, layout: Layout, steps: Range | null, theme: Theme): void {
  if (steps === null) return;
  const half = (xOf(layout, 1) - xOf(layout, 0)) / 2;
  const x0 = Math.max(layout.left, xOf(layout, steps[0]) - half);
  const x1 = Math.min(layout.right, xOf(layout, steps[1]) + half);
  if (x1 <= x0) return;
  context.fillStyle = colour('selected', theme);
  context.fillRect(x0, layout.top, Math.max(2, x1 - x0), layout.base - layout.top);
}

function paintAxes(context: CanvasRenderingContext2D, layout: Layout, theme: Theme): void {
  context.font = `11px ${FONT}`;
  context.fillStyle = colour('tick', theme);
  context.strokeStyle = colour('border', theme);
  context.lineWidth = 1;
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  for (const { y, text } of layout.yTicks) {
    line(context, layout.left, Math.round(y) + 0.5, layout.right);
    context.fillText(text, layout.left - 6, y);
  }
  context.fillText(layout.unit, layout.left - 6, 6);
  context.textAlign = 'center';
  for (const { x, text } of layout.xTicks) context.fillText(text, x, layout.height - 8);
  for (const [rank, y] of layout.rows) paintRow(context, layout, rank, y, theme);
}

/** Lines with the ids of findings about published quantities, where these begin. */
function paintEvents(context: CanvasRenderingContext2D, layout: Layout, theme: Theme): void {
  context.strokeStyle = colour('accent', theme);
  context.fillStyle = colour('tick', theme);
  context.textAlign = 'left';
  context.setLineDash([4, 3]);
  let free = -Infinity;
  for (const { x, id } of layout.marks) {
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, layout.top);
    context.lineTo(Math.round(x) + 0.5, layout.base);
    context.stroke();
    const text = `≠ ${id}`;
    if (x >= free) context.fillText(text, x + 3, layout.top + 6);
    free = Math.max(free, x + context.measureText(text).width + 6);
  }
  context.setLineDash([]);
}

/** Line of one rank's analysed steps, over which gaps are hatched. */
function paintRow(context: CanvasRenderingContext2D, layout: Layout, rank: RankKey, y: number, theme: Theme): void {
  const points = layout.points.filter((point) => point.series.rank === rank);
  const [first, last] = [points[0], points[points.length - 1]];
  if (!first || !last) return;
  const half = (xOf(layout, 1) - xOf(layout, 0)) / 2;
  const x0 = xOf(layout, first.row[0]) - half;
  context.fillStyle = slotColour(first.series.slot, theme);
  context.fillRect(x0, y - 1, xOf(layout, last.row[0]) + half - x0, 2);
  context.fillStyle = colour('tick', theme);
}

function line(context: CanvasRenderingContext2D, x0: number, y: number, x1: number): void {
  context.beginPath();
  context.moveTo(x0, y);
  context.lineTo(x1, y);
  context.stroke();
}
