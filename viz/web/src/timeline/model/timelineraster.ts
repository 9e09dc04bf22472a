/** Spans as pixels: a million in some ten milliseconds, because the lines of pixels of a row are equal. */

import { ANOMALY, firstEndingFrom, MERGED } from './spans';

/** Colours as pixels, see `pixelOf`. */
export interface RasterColours {
  /** Fills by group. */
  fills: Uint32Array;
  edge: number;
  anomaly: number;
}

/** Pixels of one row, from top to bottom: its edge, a second line, and the body. */
export interface RowPixels {
  outer: Uint32Array;
  inner: Uint32Array;
  body: Uint32Array;
}

export interface RasterRow {
  begin: Float64Array;
  end: Float64Array;
  function: Int32Array;
  flags: Uint8Array;
}

export const newRowPixels = (width: number): RowPixels => ({
  outer: new Uint32Array(width),
  inner: new Uint32Array(width),
  body: new Uint32Array(width),
});

/**
 * Fill the pixels of one row.
 *
 * Merged spans have no edge. An abnormal call has an edge of two pixels in its own colour, is at least two pixels
 * wide, and is drawn over all others.
 */
export function rasterRow(pixels: RowPixels, row: RasterRow, groups: Uint8Array, colours: RasterColours, first: number, perPixel: number): void {
  const { outer, inner, body } = pixels;
  const width = body.length;
  outer.fill(0);
  inner.fill(0);
  body.fill(0);
  const { begin, end, flags } = row;
  const last = first + width * perPixel;
  const from = firstEndingFrom(end, first);
  let isAnyAbnormal = false;
  for (let at = from; at < begin.length && (begin[at] as number) < last; at++) {
    const flag = flags[at] as number;
    if (flag & ANOMALY) {
      isAnyAbnormal = true;
      continue;
    }
    const x0 = Math.max(0, Math.floor(((begin[at] as number) - first) / perPixel));
    const x1 = Math.min(width, Math.max(x0 + 1, Math.floor(((end[at] as number) - first) / perPixel)));
    const fill = colours.fills[groups[row.function[at] as number] as number] as number;
    body.fill(fill, x0, x1);
    if (flag & MERGED) continue;
    outer.fill(colours.edge, x0, x1);
    inner.fill(fill, x0, x1);
    if (x1 - x0 < 3) continue;
    if ((begin[at] as number) >= first) body[x0] = inner[x0] = colours.edge;
    if ((end[at] as number) <= last) body[x1 - 1] = inner[x1 - 1] = colours.edge;
  }
  if (!isAnyAbnormal) return;
  for (let at = from; at < begin.length && (begin[at] as number) < last; at++) {
    if (!((flags[at] as number) & ANOMALY)) continue;
    const x0 = Math.max(0, Math.floor(((begin[at] as number) - first) / perPixel));
    const x1 = Math.min(width, Math.max(x0 + 2, Math.floor(((end[at] as number) - first) / perPixel)));
    const fill = colours.fills[groups[row.function[at] as number] as number] as number;
    outer.fill(colours.anomaly, x0, x1);
    inner.fill(colours.anomaly, x0, x1);
    body.fill(fill, x0, x1);
    body.fill(colours.anomaly, x0, Math.min(x1, x0 + 2));
    body.fill(colours.anomaly, Math.max(x0, x1 - 2), x1);
  }
}

/** Copy a row into a picture: `height` pixels from `top` on, with an edge of `edge` pixels. */
export function copyRow(picture: Uint32Array, width: number, { outer, inner, body }: RowPixels, top: number, height: number, edge: number): void {
  const rows = picture.length / width;
  for (let line = 0; line < height; line++) {
    const y = top + line;
    if (y < 0 || y >= rows) continue;
    const fromEdge = Math.min(line, height - 1 - line);
    picture.set(fromEdge < edge ? outer : fromEdge < 2 * edge ? inner : body, y * width);
  }
}
