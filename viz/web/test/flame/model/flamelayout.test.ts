import { describe, expect, test } from 'vitest';
import { framesOf, search } from '../../../src/flame/model/frames';
import { boxAt, boxOf, layOut, neighbour, ROW, treeLines, type Box } from '../../../src/flame/model/flamelayout';
import { boxLines, flameAnswer, matchesText } from '../../../src/flame/model/flamewords';
import { node, TIME } from './paths';

const NODES = [node(null, 'main', 1, 100), node(0, 'loop', 10, 10), node(1, 'work', 100, 6), node(1, 'wait', 100, 1), node(0, 'setup', 1, 100)];
const frames = framesOf(NODES, TIME);
const names = (row: readonly Box[] = []): unknown[] => row.map((box) => [frames[box.index]?.name, Math.round(box.x), Math.round(box.width)]);

/** A root that calls so many functions, each of which calls as many. */
function many(width: number, depth: number): ReturnType<typeof framesOf> {
  const nodes = [node(null, 'main', 1, 1)];
  for (let from = 0, level = 0; level < depth; level++) {
    const end = nodes.length;
    for (; from < end; from++) for (let at = 0; at < width; at++) nodes.push(node(from, `f${at}`, 1, 1 + at));
  }
  return framesOf(nodes, TIME);
}

describe('layout', () => {
  test('the whole: each stands below its caller, the widest first', () =>
    expect(layOut(frames, 0, 1000).rows.map(names)).toEqual([
      [['', 0, 1000]],
      [['main', 0, 1000]],
      [
        ['loop', 0, 800],
        ['setup', 800, 100],
      ],
      [
        ['work', 0, 600],
        ['wait', 600, 100],
      ],
    ]));

  test('zoomed: a frame fills the width, callers stand above it, and others are gone', () =>
    expect(layOut(frames, 2, 800).rows.map(names)).toEqual([
      [['', 0, 800]],
      [['main', 0, 800]],
      [['loop', 0, 800]],
      [
        ['work', 0, 600],
        ['wait', 600, 100],
      ],
    ]));

  test('what is too narrow to be seen stands together', () => {
    const nodes = [node(null, 'main', 1, 1000), node(0, 'wide', 1, 900), ...Array.from({ length: 100 }, (_, at) => node(0, `f${at}`, 1, 1))];
    const { rows } = layOut(framesOf(nodes, TIME), 0, 500);
    expect(rows[2]?.map(({ merged, merged_us, x, width }) => [merged, merged_us, x, width])).toEqual([
      [0, 0, 0, 225],
      [100, 100, 225, 25],
    ]);
  });

  test('of ten thousand frames as many are laid out as can be seen', () => {
    const all = many(21, 3);
    expect(all.length).toBeGreaterThan(9_700);
    const { rows } = layOut(all, 0, 1200);
    for (const row of rows) {
      expect(row.length).toBeLessThanOrEqual(1200);
      row.forEach((box, at) => expect(box.x).toBeGreaterThanOrEqual((row[at - 1]?.x ?? 0) + (row[at - 1]?.width ?? 0) - 1e-6));
    }
  });

  test('nothing without time or room', () => {
    expect(layOut(framesOf([], TIME), 0, 100).rows).toEqual([]);
    expect(layOut(frames, 0, 0).rows).toEqual([]);
  });
});

describe('what is pointed at', () => {
  const layout = layOut(frames, 0, 1000);
  const nameAt = (x: number, y: number): string | undefined => frames[boxAt(layout, x, y)?.index ?? -1]?.name;
  test('by the pointer', () => {
    expect(nameAt(5, 3 * ROW + 1)).toBe('work');
    expect(nameAt(650, 3 * ROW + 1)).toBe('wait');
    expect(nameAt(750, 3 * ROW + 1)).toBeUndefined();
    expect(nameAt(5, 4 * ROW + 1)).toBeUndefined();
  });
  test('by keys', () => {
    const walk = (...keys: string[]): string[] => {
      let box = boxOf(layout, 0, 0) as Box;
      return keys.map((key) => frames[(box = neighbour(layout, frames, box, key) ?? box).index]?.name ?? '');
    };
    expect(
      walk('ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowUp', 'ArrowUp', 'ArrowUp'),
    ).toEqual(['main', 'loop', 'setup', 'setup', 'loop', 'work', 'wait', 'loop', 'main', '', '']);
  });
});

describe('tree', () => {
  test('callers before what they call', () =>
    expect(treeLines(frames, 1, 9).lines.map(({ index, depth }) => [frames[index]?.name, depth])).toEqual([
      ['main', 0],
      ['loop', 1],
      ['work', 2],
      ['wait', 2],
      ['setup', 1],
    ]));
  test('of many the widest, none without its caller', () => {
    const all = many(12, 3);
    const { lines, left } = treeLines(all, 0, 100);
    expect([lines.length, left]).toEqual([100, all.length - 100]);
    const kept = new Set(lines.map(({ index }) => index));
    for (const index of kept) expect(index === 0 || kept.has(all[index]?.parent ?? -1)).toBe(true);
  });
});

describe('words', () => {
  test('the answer names whose own time is most', () => {
    expect(flameAnswer(frames, 'time')).toBe('1 ms in calls: 60 % in work itself.');
    expect(flameAnswer(framesOf([], TIME), 'time')).toBe('No call path is known yet.');
    expect(
      flameAnswer(
        frames.slice(0, 1).map((frame) => ({ ...frame, total_us: 0 })),
        'lost',
      ),
    ).toBe('No time was lost on these call paths.');
  });
  test('of a frame', () => {
    const box = { index: 3, merged: 0, merged_us: 0 };
    expect(boxLines(frames, box, 2, 'time')).toEqual([
      'work',
      'inclusive 600 µs: 60 % of all, 75 % of what is shown',
      'exclusive 600 µs',
      '100 calls, 6 µs each',
      'called by main › loop',
    ]);
    expect(boxLines(frames, { ...box, merged: 12, merged_us: 50 }, 0, 'time')[0]).toBe('12 call paths from work');
  });
  test('of a search', () => {
    expect(matchesText(search(frames, 'w', 0), frames, 0)).toBe('2 match: 700 µs, 70 %');
    expect(matchesText(search(frames, 'x', 0), frames, 0)).toBe('no frame matches');
  });
});
