/** Functions that all painters share: sharp canvases, marks and hatching. */

import { COLOURS, pick, shapeOf, SLOT_COLOURS, TRIANGLE, type ColourName, type Theme } from './model/tokens';

export const FONT = 'system-ui, sans-serif';

/** Return a cleared context in CSS pixels that is sharp on any screen and in saved pictures. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = Math.max(window.devicePixelRatio || 1, canvas.closest('[data-fine]') ? 2 : 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export const colour = (name: ColourName, theme: Theme): string => pick(COLOURS[name], theme);

/** Colour of a slot; grey for ranks without a slot. */
export function slotColour(slot: number, theme: Theme): string {
  const pair = SLOT_COLOURS[slot % SLOT_COLOURS.length];
  return slot < 0 || pair === undefined ? colour('tick', theme) : pick(pair, theme);
}

const paths = new Map<string, Path2D>();

function pathOf(data: string): Path2D {
  let path = paths.get(data);
  if (path === undefined) paths.set(data, (path = new Path2D(data)));
  return path;
}

/** Draw the mark of a slot, `size` wide, around a position. */
export function drawMark(context: CanvasRenderingContext2D, slot: number, x: number, y: number, size: number, theme: Theme): void {
  const { path, hollow } = shapeOf(Math.max(0, slot));
  drawShape(context, path, x, y, size, slotColour(slot, theme), hollow);
}

export function drawTriangle(context: CanvasRenderingContext2D, x: number, y: number, size: number, fill: string): void {
  drawShape(context, TRIANGLE, x, y, size, fill, false);
}

function drawShape(context: CanvasRenderingContext2D, data: string, x: number, y: number, size: number, fill: string, hollow: boolean): void {
  const half = size / 2;
  context.save();
  context.translate(x, y);
  context.scale(half, half);
  context.fillStyle = context.strokeStyle = fill;
  context.lineWidth = 1.5 / half;
  if (hollow) context.stroke(pathOf(data));
  else context.fill(pathOf(data));
  context.restore();
}

/** Draw diagonal lines: on a filled background for what was lost, without one for what was analysed but not kept. */
export function hatch(context: CanvasRenderingContext2D, kind: 'lost' | 'not kept', x: number, y: number, width: number, height: number, theme: Theme): void {
  if (width <= 0 || height <= 0) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  if (kind === 'lost') {
    context.fillStyle = colour('unknown', theme);
    context.fillRect(x, y, width, height);
  }
  context.strokeStyle = colour(kind === 'lost' ? 'hatch' : 'unknown', theme);
  context.lineWidth = 1;
  context.beginPath();
  for (let at = Math.floor((x - height) / 40) * 40; at < x + width; at += kind === 'lost' ? 5 : 8) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}
