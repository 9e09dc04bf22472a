import { describe, expect, test } from 'vitest';
import { ANOMALY, MERGED } from '../../../src/timeline/model/spans';
import { copyRow, newRowPixels, rasterRow } from '../../../src/timeline/model/timelineraster';

const colours = { fills: Uint32Array.of(11, 22), edge: 5, anomaly: 9 };

/** What stands in each pixel of the body, span by span and pixel by pixel. */
function naive(spans: { begin: number; end: number; group: number; flags: number }[], first: number, perPixel: number, width: number): number[] {
  const body = new Array<number>(width).fill(0);
  for (const abnormal of [false, true]) {
    for (const span of spans) {
      if (((span.flags & ANOMALY) !== 0) !== abnormal) continue;
      const left = Math.floor((span.begin - first) / perPixel);
      const right = Math.max(Math.max(0, left) + (abnormal ? 2 : 1), Math.floor((span.end - first) / perPixel));
      if (span.end < first || span.begin >= first + width * perPixel) continue;
      for (let x = Math.max(0, left); x < Math.min(width, right); x++) {
        body[x] = colours.fills[span.group] as number;
        const fromSide = Math.min(x - Math.max(0, left), Math.min(width, right) - 1 - x);
        if (abnormal && fromSide < 2) body[x] = colours.anomaly;
        const isWide = Math.min(width, right) - Math.max(0, left) >= 3;
        if (!abnormal && !(span.flags & MERGED) && isWide) {
          if (x === Math.max(0, left) && span.begin >= first) body[x] = colours.edge;
          if (x === Math.min(width, right) - 1 && span.end <= first + width * perPixel) body[x] = colours.edge;
        }
      }
    }
  }
  return body;
}

describe('raster', () => {
  test('is what single pixels would be', () => {
    let seed = 7;
    const chance = (most: number): number => (seed = (seed * 16807) % 2147483647) % most;
    const spans: { begin: number; end: number; group: number; flags: number }[] = [];
    for (let at = 0; at < 3000;) {
      const begin = at + chance(4);
      const end = begin + chance(30);
      spans.push({ begin, end, group: chance(2), flags: [0, 0, 0, MERGED, ANOMALY][chance(5)] as number });
      at = end;
    }
    const row = {
      begin: Float64Array.from(spans, (span) => span.begin),
      end: Float64Array.from(spans, (span) => span.end),
      function: Int32Array.from(spans, (span) => span.group),
      flags: Uint8Array.from(spans, (span) => span.flags),
    };
    for (const [first, perPixel] of [
      [0, 1],
      [100, 2.5],
      [500, 0.4],
      [-50, 16],
    ] as const) {
      const pixels = newRowPixels(200);
      rasterRow(pixels, row, Uint8Array.of(0, 1), colours, first, perPixel);
      expect([...pixels.body]).toEqual(naive(spans, first, perPixel, 200));
    }
  });

  test('an abnormal call is seen at any zoom', () => {
    const row = {
      begin: Float64Array.of(0, 500_000, 500_001),
      end: Float64Array.of(500_000, 500_001, 1e6),
      function: Int32Array.of(0, 0, 0),
      flags: Uint8Array.of(0, ANOMALY, 0),
    };
    const pixels = newRowPixels(100);
    rasterRow(pixels, row, Uint8Array.of(0), colours, 0, 1e4);
    expect([...pixels.body].filter((pixel) => pixel === colours.anomaly)).toHaveLength(2);
    expect([...pixels.outer].filter((pixel) => pixel === colours.anomaly)).toHaveLength(2);
  });

  test('rows are copied with edges, and cut at the border', () => {
    const pixels = { outer: Uint32Array.of(1, 1), inner: Uint32Array.of(2, 2), body: Uint32Array.of(3, 3) };
    const picture = new Uint32Array(2 * 6);
    copyRow(picture, 2, pixels, 1, 5, 1);
    expect([...picture].filter((_, at) => at % 2 === 0)).toEqual([0, 1, 2, 3, 2, 1]);
    copyRow(picture, 2, pixels, -3, 5, 1);
    expect(picture[0]).toBe(2);
  });
});
