import { expect, test } from 'vitest';
import { rasterOf, stamp, type Mask, type Raster } from '../../../../src/shared/charts/model/stamps';

const blank = (width: number, height: number): Raster => rasterOf(width, height, new Uint8ClampedArray(4 * width * height));
const full = (size: number, coverage = 255): Mask => ({ size, coverage: new Uint8ClampedArray(size * size).fill(coverage) });
const pixel = (raster: Raster, x: number, y: number): number[] => [...raster.bytes.slice(4 * (y * raster.width + x), 4 * (y * raster.width + x) + 4)];
const covered = (raster: Raster): number => raster.bytes.filter((value, at) => at % 4 === 3 && value > 0).length;

test('a mark stands around its centre', () => {
  const raster = blank(9, 7);
  stamp(raster, full(3), 4.5, 3.5, '#C86432');
  expect(covered(raster)).toBe(9);
  expect(pixel(raster, 4, 3)).toEqual([200, 100, 50, 255]);
  expect(pixel(raster, 3, 2)).toEqual([200, 100, 50, 255]);
  expect(pixel(raster, 6, 3)).toEqual([0, 0, 0, 0]);
});

test.each([
  [0, 0, 4],
  [8, 0, 4],
  [8, 8, 4],
  [-9, 4, 0],
  [4, 99, 0],
])('at %d, %d it is cut at the edge and runs over no other row', (x, y, seen) => {
  const raster = blank(8, 8);
  stamp(raster, full(4), x, y, '#010203');
  expect(covered(raster)).toBe(seen);
});

test('half a pixel lets half of what is below through', () => {
  const raster = blank(1, 1);
  stamp(raster, full(1), 0.5, 0.5, '#C80000');
  stamp(raster, full(1), 0.5, 0.5, '#006400', 0.5);
  expect(pixel(raster, 0, 0)).toEqual([100, 50, 0, 255]);
});

test('on nothing it keeps its colour and takes its opacity', () => {
  const raster = blank(1, 1);
  stamp(raster, full(1), 0.5, 0.5, '#5A3C1E', 0.5);
  expect(pixel(raster, 0, 0)).toEqual([90, 60, 30, 128]);
});
