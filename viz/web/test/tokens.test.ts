import { describe, expect, test } from 'vitest';
import { COLOURS, GROUP_FILLS, SLOT_COLOURS, shapeOf, type Pair } from '../src/lib/tokens';

/** WCAG 2 contrast of two colours. */
function contrast(a: string, b: string): number {
  const luminance = (colour: string): number => {
    const [r, g, b] = [1, 3, 5].map((at) => {
      const value = parseInt(colour.slice(at, at + 2), 16) / 255;
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
  test('text reads on selection, banner and timeline bars', () => {
    for (const ground of [COLOURS.selected, COLOURS['amber-banner'], ...Object.values(GROUP_FILLS)]) {
      for (const value of against(COLOURS.text, ground)) expect(value).toBeGreaterThanOrEqual(7);
    }
  });
  test('marks of ranks are visible', () => {
    for (const colour of SLOT_COLOURS) for (const value of against(colour, COLOURS.surface)) expect(value).toBeGreaterThanOrEqual(3);
  });
});

test('twelve slots differ in shape or filling', () => {
  const looks = Array.from({ length: 12 }, (_, slot) => JSON.stringify(shapeOf(slot)));
  expect(new Set(looks).size).toBe(12);
});
