import { describe, expect, test } from 'vitest';
import { framesOf, pathOf, indexOfFrame, search, type Frame, type Wanted } from '../../../src/flame/model/frames';
import { node, TIME } from './paths';
import type { PathNode } from '../../../src/shared/api/types';

const NODES = [
  node(null, 'main', 1, 100),
  node(0, 'setup', 1, 50),
  node(0, 'loop', 10, 10),
  node(2, 'work', 100, 3, 3, 40),
  node(2, 'MPI_Recv()', 100, 1, 1, 500),
  node(1, 'work', 5, 2),
  node(3, 'work', 10, 1),
];

const shown = (frames: readonly Frame[]): unknown[] =>
  frames.map((frame, at) => [pathOf(frames, at).join(' '), frame.calls, frame.total_us, frame.own_us, frame.depth]);

describe('frames', () => {
  test('each is as wide as its own time and that of what it calls', () =>
    expect(shown(framesOf(NODES, TIME))).toEqual([
      ['', 0, 670, 0, 0],
      ['main', 1, 670, 100, 1],
      ['main setup', 1, 60, 50, 2],
      ['main loop', 10, 510, 100, 2],
      ['main loop work', 100, 310, 300, 3],
      ['main loop MPI_Recv()', 100, 100, 100, 3],
      ['main setup work', 5, 10, 10, 3],
      ['main loop work work', 10, 10, 10, 4],
    ]));

  test('what is called stands in the order of its width', () => {
    const frames = framesOf(NODES, TIME);
    expect(frames[3]?.children.map((at) => frames[at]?.name)).toEqual(['work', 'MPI_Recv()']);
    const lost = framesOf(NODES, { ...TIME, weight: 'lost' });
    expect(lost[3]?.children.map((at) => lost[at]?.name)).toEqual(['MPI_Recv()', 'work']);
    expect(lost[0]?.total_us).toBe(540);
  });

  test('of one function: all its callers together, and what it calls itself stays below it', () => {
    const frames = framesOf(NODES, { ...TIME, name: 'work' });
    expect(shown(frames)).toEqual([
      ['', 0, 320, 0, 0],
      ['work', 105, 320, 310, 1],
      ['work work', 10, 10, 10, 2],
    ]);
    expect(framesOf(NODES, { ...TIME, name: 'work', program: 1 })).toHaveLength(1);
  });

  test('where only inclusive runtimes are known, what is not below is its own', () => {
    const imported = [node(null, 'main', 1, 0, 500), node(0, 'f', 10, 0, 30), node(0, 'g', 1, 0, 300)];
    expect(shown(framesOf(imported, TIME)).slice(1)).toEqual([
      ['main', 1, 600, 0, 1],
      ['main f', 10, 300, 300, 2],
      ['main g', 1, 300, 300, 2],
    ]);
  });

  test('of one rank, whose runtimes are known all together only', () => {
    const sums = NODES.map((one) => ({ ...one, exclusive: null, inclusive: null }));
    expect(framesOf(sums, TIME)).toEqual(framesOf(NODES, TIME));
  });

  test('time that callers lose with what they call counts once', () => {
    const nodes = [node(null, 'main', 1, 1, 1, 100), node(0, 'f', 1, 1, 1, 90)];
    const wanted: Wanted = { ...TIME, weight: 'lost', metric: 'inclusive' };
    expect(shown(framesOf(nodes, wanted)).map((row) => (row as unknown[]).slice(2, 4))).toEqual([
      [100, 0],
      [100, 10],
      [90, 90],
    ]);
  });

  test('no path, one frame without time', () => expect(shown(framesOf([], TIME))).toEqual([['', 0, 0, 0, 0]]));

  test('an id is that of the path, whatever else there is', () => {
    const frames = framesOf(NODES, TIME);
    expect(new Set(frames.map(({ id }) => id)).size).toBe(frames.length);
    for (const { id } of frames) expect(id).toMatch(/^[0-9a-f]{8}$/);
    const fewer = framesOf([NODES[0], node(0, 'loop'), node(1, 'work', 1, 1)] as PathNode[], TIME);
    expect(indexOfFrame(frames, fewer[3]?.id ?? '')).toBe(4);
    expect(indexOfFrame(frames, '00000000')).toBe(0);
    // Nothing was lost in it: zoomed to, it would be an empty picture.
    const lost = framesOf(NODES, { ...TIME, weight: 'lost' });
    expect([indexOfFrame(lost, frames[4]?.id ?? ''), indexOfFrame(lost, frames[2]?.id ?? '')]).toEqual([4, 0]);
  });
});

describe('search', () => {
  const frames = framesOf(NODES, TIME);
  const found = (text: string, below = 0): [string[], number, number] => {
    const { flags, count, total_us } = search(frames, text, below);
    return [frames.filter((_, at) => flags[at] === 1).map(({ name }) => name), count, total_us];
  };
  test('sums what matches, and what is below a match once', () => expect(found('WORK')).toEqual([['work', 'work', 'work'], 3, 320]));
  test('of what the zoom shows', () => {
    expect(found('work', 3).slice(1)).toEqual([2, 310]);
    expect(found('main', 3)).toEqual([['main'], 0, 0]);
  });
  test('nothing is nothing', () => {
    expect(found(' ')).toEqual([[], 0, 0]);
    expect(found('x')).toEqual([[], 0, 0]);
  });
});
