import { describe, expect, test } from 'vitest';
import { STRONGEST } from '../../../../src/compare/model/differential';
import { COLOURS, GROUP_FILLS, HEAT_RAMP, pixelOf, rgbOf, SLOT_COLOURS, shapeOf, type Pair } from '../../../../src/shared/charts/model/tokens';

/** WCAG 2 contrast of two colours. */
function contrast(a: string, b: string): number {
  const luminance = (colour: string): number => {
    const [r, g, b] = rgbOf(colour).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const against = (pair: Pair, ground: Pair): number[] => [0, 1].map((theme) => contrast(pair[theme] as string, ground[theme] as string));

describe('contrast in both themes', () => {
  test.each(['text', 'text-2', 'tick', 'accent', 'anomaly', 'faster', 'amber'] as const)('%s reads on surface and page', (name) => {
    for (const ground of [COLOURS.surface, COLOURS.page]) {
      for (const value of against(COLOURS[name], ground)) expect(value).toBeGreaterThanOrEqual(4.5);
    }
  });
  test.each(['control', 'hatch', 'edge'] as const)('%s is visible on the surface', (name) => {
    for (const value of against(COLOURS[name], COLOURS.surface)) expect(value).toBeGreaterThanOrEqual(3);
  });
  test('text reads on the deepest colours of a differential flame graph', () => {
    const mixed = (colour: string, ground: string): string => {
      const [parts, below] = [rgbOf(colour), rgbOf(ground)];
      const part = (at: 0 | 1 | 2): string =>
        Math.round(parts[at] * STRONGEST + below[at] * (1 - STRONGEST))
          .toString(16)
          .padStart(2, '0');
      return `#${part(0)}${part(1)}${part(2)}`;
    };
    const { anomaly, faster, surface, text } = COLOURS;
    for (const pair of [anomaly, faster]) {
      const ground: Pair = [mixed(pair[0], surface[0]), mixed(pair[1], surface[1])];
      for (const value of against(text, ground)) expect(value).toBeGreaterThanOrEqual(4.5);
    }
  });
  test('text reads on selection, banner and timeline bars', () => {
    for (const ground of [COLOURS.selected, COLOURS['amber-banner'], ...Object.values(GROUP_FILLS)]) {
      for (const value of against(COLOURS.text, ground)) expect(value).toBeGreaterThanOrEqual(7);
    }
  });
  test('one anomaly is visible on the heat map, and more of them ever more', () => {
    for (const theme of [0, 1]) {
      const climbing = HEAT_RAMP.map((pair) => against(pair, COLOURS.surface)[theme] as number);
      expect(climbing[0]).toBeGreaterThanOrEqual(3);
      expect(climbing).toEqual([...climbing].sort((a, b) => a - b));
      expect(climbing.at(-1)).toBeGreaterThanOrEqual(13);
    }
  });
  test('what is unknown on the heat map is none of its counts', () => {
    for (const ground of [COLOURS.surface, COLOURS.page]) {
      for (const value of against(COLOURS.hatch, ground)) expect(value).toBeGreaterThanOrEqual(3);
    }
  });
  test('marks of ranks are visible', () => {
    for (const colour of SLOT_COLOURS) for (const value of against(colour, COLOURS.surface)) expect(value).toBeGreaterThanOrEqual(3);
  });
});

test('a pixel holds red in its lowest byte', () => expect(pixelOf('#D67D13')).toBe(0xff137dd6));

test('twelve slots differ in shape or filling', () => {
  const looks = Array.from({ length: 12 }, (_, slot) => JSON.stringify(shapeOf(slot)));
  expect(new Set(looks).size).toBe(12);
});
