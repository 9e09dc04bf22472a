import { expect, test } from 'vitest';
import { publishedLines, publishedOf, type PublishedFinding } from '../../../src/timeline/model/published';

const found = (id: string, time_us: number): PublishedFinding => ({ id, sentence: `${id} is wrong.`, time_us });
const same = (value: number): number => value;

test('findings stand where they began, and those side by side share a label', () => {
  const marks = publishedOf([found('M3', 500), found('M1', 100), found('M2', 110), found('M9', 2000)], same, same, 1000);
  expect(marks.map(({ text, lines }) => [text, lines])).toEqual([
    ['≠ M1 +1', [100, 110]],
    ['≠ M3', [500]],
  ]);
  expect(marks.every(({ lines, x }) => x > (lines[0] as number))).toBe(true);
});

test('a label at the edge stays in the picture', () => {
  const [mark] = publishedOf([found('M1', 999)], same, same, 1000);
  expect(mark && mark.x + mark.width).toBe(1000);
});

test('a folded axis moves them', () => {
  const [mark] = publishedOf([found('M1', 900)], (time) => time / 2, same, 1000);
  expect(mark?.lines).toEqual([450]);
});

test('a label says what is wrong, and of how many more', () => {
  const [mark] = publishedOf([found('M1', 3e6), found('M2', 3e6), found('M3', 3e6), found('M4', 3e6)], same, () => 5, 1000);
  const lines = mark === undefined ? [] : publishedLines(mark, 1e6);
  expect(lines[0]).toBe('≠ M1 is wrong. From +00:00:02.000');
  expect(lines.slice(3)).toEqual(['and 1 more', 'click: the first of them']);
});
