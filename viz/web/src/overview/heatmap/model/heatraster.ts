/** Cells of the heat map as pixels. */

import { layerOf, UNKNOWN } from './grid';
import type { Measure } from '../../../shared/address/model/view';
import { columnDrawn, type HeatLayout } from './heatlayout';

/** Least size of cells that have lines between them. */
const LINED_PX = 6;

/** Pixels of the cells for an image of `width` × `height` device pixels. */
export function rasterised(layout: HeatLayout, measure: Measure, width: number, height: number, palette: HeatPalette): Uint32Array {
  const pixels = new Uint32Array(width * height);
  const scale = width / (layout.right - layout.left);
  const columnAt = columnsByPixel(layout, width, scale);
  const rows = layout.bands.length;
  const cells = layerOf(layout, measure);
  const isLined = height / Math.max(1, rows) >= LINED_PX * scale;
  // A line that equals the one above is copied; lines with hatching differ.
  let drawn = -1;
  for (let y = 0; y < height; y++) {
    const row = Math.floor((y * rows) / height);
    const isLine = isLined && Math.floor(((y + 1) * rows) / height) !== row;
    const line = pixels.subarray(y * width, (y + 1) * width);
    if (row === drawn && !isLine) line.set(pixels.subarray((y - 1) * width, y * width));
    else drawn = drawLine(line, cells.subarray(row * layout.columns, (row + 1) * layout.columns), columnAt, y, isLine, palette) ? -1 : row;
  }
  return pixels;
}

/** Draw one line of pixels; return whether the next line differs. */
function drawLine(line: Uint32Array, cells: Uint8Array, columnAt: Int32Array, y: number, isLine: boolean, palette: HeatPalette): boolean {
  const { values, hatch, hatchEvery, hatchWidth, toCome } = palette;
  const zero = values[0] as number;
  let differs = isLine;
  for (let x = 0; x < line.length; x++) {
    const column = columnAt[x] as number;
    if (column < 0 || isLine) {
      line[x] = column === TO_COME ? toCome : zero;
      continue;
    }
    const value = cells[column] as number;
    line[x] = values[value] as number;
    if (value !== UNKNOWN) continue;
    differs = true;
    if ((x + y) % hatchEvery < hatchWidth) line[x] = hatch;
  }
  return differs;
}

/** Colours as pixels. */
export interface HeatPalette {
  /** Colours by the value of a cell: zero is the surface, the last one is unknown. */
  values: Uint32Array;
  hatch: number;
  /** Distance and width of the lines of the hatching, in device pixels. */
  hatchEvery: number;
  hatchWidth: number;
  toCome: number;
}

const TO_COME = -1;
const LINE = -2;

function columnsByPixel(layout: HeatLayout, width: number, scale: number): Int32Array {
  const steps = (layout.steps[1] - layout.steps[0]) / width;
  const isLined = (layout.span * layout.grid.steps_per_column) / steps >= LINED_PX * scale;
  const columnAt = (x: number): number => columnDrawn(layout, Math.floor(layout.steps[0] + (x + 0.5) * steps));
  return Int32Array.from({ length: width }, (_, x) => {
    const column = columnAt(x);
    if (column < 0 || column >= layout.columns) return TO_COME;
    return isLined && columnAt(x + 1) !== column ? LINE : column;
  });
}
