/** Painter of the heat map: cells and axes on one canvas, the focus on another above it. */

import type { Bins } from './model/bins';
import { silentRows, xOfStep, yOfRank, type HeatLayout } from './model/heatlayout';
import { rasterised, type HeatPalette } from './model/heatraster';
import { COLOURS, HEAT_RAMP, pick, pixelOf, type Pair, type Theme } from '../../shared/charts/model/tokens';
import { colour, drawMark, FONT } from '../../shared/charts/canvas';
import { layerOf } from '../../shared/charts/stampimages';
import type { Measure } from '../../shared/address/model/view';
import type { RankKey } from '../../shared/api/types';

export interface HeatMarks {
  measure: Measure;
  bins: Bins;
  /** Ranks by colour slot. */
  slots: readonly (RankKey | null)[];
  /** Rank that is emphasised. */
  rank: RankKey | null;
  /** Number of steps that should have arrived since the newest one. */
  stale: number;
  /** Step after the newest one. */
  end: number;
}

export type Box = readonly [x: number, y: number, width: number, height: number];

export function paintHeatMap(context: CanvasRenderingContext2D, layout: HeatLayout, marks: HeatMarks, theme: Theme): void {
  const emphasised = marks.rank === null ? null : yOfRank(layout, marks.rank);
  paintCells(context, layout, marks, emphasised, theme);
  paintStale(context, layout, marks, theme);
  paintAxes(context, layout, theme);
  paintSilent(context, layout, theme);
  marks.slots.forEach((rank, slot) => {
    const y = rank === null ? null : yOfRank(layout, rank);
    if (y !== null) drawMark(context, slot, layout.left - 6, y, 8, theme);
  });
}

function paintCells(context: CanvasRenderingContext2D, layout: HeatLayout, { measure, bins }: HeatMarks, emphasised: number | null, theme: Theme): void {
  const scale = context.getTransform().a;
  const [x, y] = [layout.left, layout.top];
  const [width, height] = [layout.right - layout.left, layout.bottom - layout.top];
  const [columns, rows] = [Math.round(width * scale), Math.round(height * scale)];
  if (columns <= 0 || rows <= 0) return;
  const image = new ImageData(columns, rows);
  new Uint32Array(image.data.buffer).set(rasterised(layout, measure, columns, rows, paletteOf(bins, theme, scale)));
  if (emphasised === null) return context.putImageData(image, Math.round(x * scale), Math.round(y * scale));
  const layer = layerOf(image);
  context.globalAlpha = 0.25;
  context.drawImage(layer, x, y, width, height);
  context.globalAlpha = 1;
  const rowHeight = height / layout.bands.length;
  const top = emphasised - rowHeight / 2;
  context.drawImage(layer, 0, (top - y) * scale, columns, rowHeight * scale, x, top, width, rowHeight);
  context.strokeStyle = colour('accent', theme);
  context.lineWidth = 1;
  context.strokeRect(x, top - 1, width, rowHeight + 2);
}

/** Area where steps of a running program should have arrived. */
function paintStale(context: CanvasRenderingContext2D, layout: HeatLayout, { end, stale }: HeatMarks, theme: Theme): void {
  const [x0, x1] = [xOfStep(layout, Math.max(end, layout.steps[0])), Math.min(layout.right, xOfStep(layout, end + stale))];
  if (stale <= 0 || x1 <= x0) return;
  context.save();
  context.beginPath();
  context.rect(x0, layout.top, x1 - x0, layout.bottom - layout.top);
  context.clip();
  context.strokeStyle = colour('amber', theme);
  context.beginPath();
  const height = layout.bottom - layout.top;
  for (let x = Math.floor((x0 - height) / 6) * 6; x < x1; x += 6) {
    context.moveTo(x, layout.bottom);
    context.lineTo(x + height, layout.top);
  }
  context.stroke();
  context.restore();
}

function paintAxes(context: CanvasRenderingContext2D, layout: HeatLayout, theme: Theme): void {
  context.strokeStyle = colour('border', theme);
  context.lineWidth = 1;
  context.strokeRect(layout.left - 0.5, layout.top - 0.5, layout.right - layout.left + 1, layout.bottom - layout.top + 1);
  context.strokeStyle = colour('control', theme);
  for (const y of layout.borders) {
    context.beginPath();
    context.moveTo(layout.left, Math.round(y) + 0.5);
    context.lineTo(layout.right, Math.round(y) + 0.5);
    context.stroke();
  }
  context.font = `11px ${FONT}`;
  context.fillStyle = colour('tick', theme);
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const { y, text } of layout.yTicks) context.fillText(text, layout.left - 12, Math.min(layout.bottom - 5, Math.max(layout.top + 6, y)));
  context.textAlign = 'left';
  for (const { x, text } of layout.xTicks) {
    context.fillRect(Math.round(x), layout.bottom, 1, 4);
    const width = context.measureText(text).width;
    context.fillText(text, Math.min(x + 3, layout.width - width - 1), layout.height - 7);
  }
}

/** Wedge at the right edge of each row with a silent rank. */
function paintSilent(context: CanvasRenderingContext2D, layout: HeatLayout, theme: Theme): void {
  context.fillStyle = colour('amber', theme);
  for (const { y } of silentRows(layout)) {
    context.beginPath();
    context.moveTo(layout.right + 3, y);
    context.lineTo(layout.right + 12, y - 5);
    context.lineTo(layout.right + 12, y + 5);
    context.fill();
  }
}

/** Ring around a cell, and the area that is being selected. */
export function paintHeatFocus(context: CanvasRenderingContext2D, cell: Box | null, brush: Box | null, theme: Theme): void {
  context.strokeStyle = colour('accent', theme);
  context.lineWidth = 2;
  if (cell !== null) context.strokeRect(cell[0] - 2, cell[1] - 2, cell[2] + 4, cell[3] + 4);
  if (brush === null) return;
  context.globalAlpha = 0.2;
  context.fillStyle = colour('accent', theme);
  context.fillRect(...brush);
  context.globalAlpha = 1;
  context.strokeRect(...brush);
}

function paletteOf(bins: Bins, theme: Theme, scale: number): HeatPalette {
  const pixel = (pair: Pair): number => pixelOf(pick(pair, theme));
  const values = Uint32Array.from({ length: 256 }, (_, value) => pixel(HEAT_RAMP[bins.of(value)] as Pair));
  values[0] = pixel(COLOURS.surface);
  values[255] = pixel(COLOURS.unknown);
  return { values, hatch: pixel(COLOURS.hatch), hatchEvery: Math.round(5 * scale), hatchWidth: Math.max(1, Math.round(scale)), toCome: pixel(COLOURS.page) };
}
