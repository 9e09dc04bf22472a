/**
 * Marks written as pixels into one image: tens of thousands of them take milliseconds, where a canvas takes a tenth
 * of a second to draw them one by one.
 */

/** How much of each pixel a mark covers, 0 to 255, around its centre. */
export interface Mask {
  size: number;
  coverage: Uint8ClampedArray;
}

/** An image that begins transparent: red, green, blue, opacity. */
export interface Raster {
  width: number;
  height: number;
  bytes: Uint8ClampedArray;
}

export type Rgb = readonly [red: number, green: number, blue: number];

/** Put a mark, centred at a place in device pixels, over what is there. */
export function stamp(raster: Raster, mask: Mask, x: number, y: number, colour: Rgb, opacity = 1): void {
  const { width, height, bytes } = raster;
  const { size, coverage } = mask;
  const left = Math.round(x - size / 2);
  const top = Math.round(y - size / 2);
  const firstColumn = Math.max(0, -left);
  const endColumn = Math.min(size, width - left);
  const endRow = Math.min(size, height - top);
  const [red, green, blue] = colour;
  for (let row = Math.max(0, -top); row < endRow; row++) {
    let at = ((top + row) * width + left + firstColumn) * 4;
    for (let column = firstColumn; column < endColumn; column++, at += 4) {
      const above = ((coverage[row * size + column] as number) * opacity) / 255;
      if (above === 0) continue;
      const below = ((bytes[at + 3] as number) / 255) * (1 - above);
      const sum = above + below;
      bytes[at] = (red * above + (bytes[at] as number) * below) / sum;
      bytes[at + 1] = (green * above + (bytes[at + 1] as number) * below) / sum;
      bytes[at + 2] = (blue * above + (bytes[at + 2] as number) * below) / sum;
      bytes[at + 3] = 255 * sum;
    }
  }
}
