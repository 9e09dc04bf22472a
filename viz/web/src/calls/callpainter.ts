/** Painter of the chart of calls: axes and marks on one canvas, rings around the chosen and focused calls on another. */

import { FASTER, isShown, NORMAL, SLOWER, type Box, type CallLayout } from './model/calllayout';
import { stamp } from '../shared/charts/model/stamps';
import { SHAPES, TRIANGLE, TRIANGLE_DOWN, type ColourName, type Theme } from '../shared/charts/model/tokens';
import { colour, FONT } from '../shared/charts/canvas';
import { maskOf, paste, rasterFor } from '../shared/charts/stampimages';

const CIRCLE = SHAPES[0] as string;
const MARKS: Readonly<Record<number, { path: string; hollow: boolean; colour: ColourName }>> = {
  [NORMAL]: { path: CIRCLE, hollow: true, colour: 'tick' },
  [SLOWER]: { path: TRIANGLE, hollow: false, colour: 'anomaly' },
  [FASTER]: { path: TRIANGLE_DOWN, hollow: false, colour: 'faster' },
};

export function paintCalls(context: CanvasRenderingContext2D, layout: CallLayout, isNamed: boolean, theme: Theme): void {
  paintAxes(context, layout, isNamed, theme);
  const scale = context.getTransform().a;
  const raster = rasterFor(context);
  for (const at of layout.drawn) {
    const mark = MARKS[layout.kind[at] as number] as (typeof MARKS)[number];
    const mask = maskOf(mark.path, mark.hollow, (layout.size[at] as number) * scale);
    const opacity = layout.size[at] === 6 ? layout.opacity : 1;
    stamp(raster, mask, (layout.x[at] as number) * scale, (layout.y[at] as number) * scale, colour(mark.colour, theme), opacity);
  }
  paste(context, raster.image);
}

/** Calls to be marked, by their index; -1 for none. */
export interface Emphasis {
  chosen: number;
  pointed: number;
  /** Rectangle that is being selected. */
  brush: Box | null;
}

/** Paint rings around the chosen call and the one under the pointer, and the rectangle that is being selected. */
export function paintRings(context: CanvasRenderingContext2D, layout: CallLayout, { chosen, pointed, brush }: Emphasis, theme: Theme): void {
  context.strokeStyle = colour('accent', theme);
  for (const [at, width] of [
    [pointed, 1],
    [chosen, 2],
  ] as const) {
    if (!isShown(layout, at)) continue;
    context.lineWidth = width;
    context.beginPath();
    context.arc(layout.x[at] as number, layout.y[at] as number, (layout.size[at] as number) / 2 + 4, 0, 2 * Math.PI);
    context.stroke();
  }
  if (brush === null) return;
  context.lineWidth = 1;
  context.strokeRect(crisp(brush.x0), crisp(brush.y0), Math.round(brush.x1 - brush.x0), Math.round(brush.y1 - brush.y0));
}

function paintAxes(context: CanvasRenderingContext2D, layout: CallLayout, isNamed: boolean, theme: Theme): void {
  const { left, right, top, base, xAxis, yAxis } = layout;
  context.lineWidth = 1;
  context.strokeStyle = colour('border', theme);
  for (const { at } of xAxis.ticks) line(context, crisp(at), top, crisp(at), base);
  for (const { at } of yAxis.ticks) line(context, left, crisp(at), right, crisp(at));
  context.strokeStyle = colour('control', theme);
  line(context, left, crisp(base), right, crisp(base));
  for (const at of xAxis.breaks) line(context, crisp(at), top, crisp(at), base);
  for (const at of yAxis.breaks) line(context, left, crisp(at), right, crisp(at));
  context.fillStyle = colour('tick', theme);
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  context.font = isNamed ? '11px ui-monospace, monospace' : `11px ${FONT}`;
  for (const { at, text } of yAxis.ticks) context.fillText(text, left - 8, at);
  context.font = `11px ${FONT}`;
  context.textAlign = 'center';
  for (const { at, text } of xAxis.ticks) context.fillText(text, at, base + 10);
  context.textAlign = 'right';
  context.fillText(xAxis.title, right, base + 26);
  if (!isNamed) upright(context, yAxis.title, 10, top);
}

/** Write a text upwards that ends at a height. */
function upright(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  context.save();
  context.translate(x, y);
  context.rotate(-Math.PI / 2);
  context.fillText(text, 0, 0);
  context.restore();
}

const crisp = (at: number): number => Math.round(at) + 0.5;

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
