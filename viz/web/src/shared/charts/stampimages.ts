/** Masks of marks, and images of many marks on a canvas. */

import { rasterOf, type Mask, type Raster } from './model/stamps';

const masks = new Map<string, Mask>();

/** Mask of an outline in a box from -1 to 1, `size` device pixels wide. */
export function maskOf(path: string, hollow: boolean, size: number): Mask {
  const key = `${path} ${hollow} ${size}`;
  let mask = masks.get(key);
  if (mask === undefined) masks.set(key, (mask = drawn(path, hollow, size)));
  return mask;
}

function drawn(path: string, hollow: boolean, size: number): Mask {
  // A margin of one pixel on each side: outlines are 1.5 pixels wide.
  const box = Math.ceil(size) + 2;
  const context = new OffscreenCanvas(box, box).getContext('2d') as OffscreenCanvasRenderingContext2D;
  context.translate(box / 2, box / 2);
  context.scale(size / 2, size / 2);
  context.lineWidth = 3 / size;
  if (hollow) context.stroke(new Path2D(path));
  else context.fill(new Path2D(path));
  const bytes = context.getImageData(0, 0, box, box).data;
  return { size: box, coverage: Uint8ClampedArray.from({ length: box * box }, (_, at) => bytes[at * 4 + 3] as number) };
}

/** Image as large as the canvas, for `paste`. */
export function rasterFor(context: CanvasRenderingContext2D): Raster & { image: ImageData } {
  const { width, height } = context.canvas;
  const image = context.createImageData(width, height);
  return { ...rasterOf(width, height, image.data), image };
}

/** Draw an image over the canvas. */
export function paste(context: CanvasRenderingContext2D, image: ImageData): void {
  context.save();
  context.resetTransform();
  context.drawImage(layerOf(image), 0, 0);
  context.restore();
}

let layer: OffscreenCanvas | null = null;

/** Canvas of an image, valid until the next call: it is reused, because making one takes as long as drawing it. */
export function layerOf(image: ImageData): OffscreenCanvas {
  if (layer?.width !== image.width || layer.height !== image.height) layer = new OffscreenCanvas(image.width, image.height);
  (layer.getContext('2d') as OffscreenCanvasRenderingContext2D).putImageData(image, 0, 0);
  return layer;
}
