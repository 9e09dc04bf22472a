import { expect, test } from 'vitest';
import { framesOf, indexOfFrame } from '../../../src/flame/model/frames';
import { heaviest } from '../../../src/flame/model/heaviest';
import { node, TIME } from './paths';

const FRAMES = framesOf(
  [node(null, 'main', 1, 100), node(0, 'setup', 1, 50), node(0, 'loop', 10, 10), node(2, 'work', 100, 3), node(1, 'work', 5, 2), node(3, 'work', 10, 1)],
  TIME,
);

const shown = (below: number): unknown[] => heaviest(FRAMES, below).map(({ name, own_us, total_us, calls }) => [name, own_us, total_us, calls]);

test('a function has the time of all its callers, and that of calls inside of itself once', () =>
  expect(shown(0)).toEqual([
    ['work', 320, 320, 115],
    ['main', 100, 570, 1],
    ['loop', 100, 410, 10],
    ['setup', 50, 60, 1],
  ]));

test('below a frame only what is in it counts', () => {
  const setup = indexOfFrame(FRAMES, FRAMES.find(({ name }) => name === 'setup')?.id ?? '');
  expect(shown(setup)).toEqual([
    ['setup', 50, 60, 1],
    ['work', 10, 10, 5],
  ]);
  const inner = FRAMES.findIndex(({ name, depth }) => name === 'work' && depth === 4);
  expect(shown(inner)).toEqual([['work', 10, 10, 10]]);
});

test('what was slept adds up over all callers', () => {
  const frames = framesOf([node(null, 'main', 1, 100), node(0, 'work', 10, 3, 3, 0, 20), node(1, 'work', 5, 2, 2, 0, 4), node(0, 'unknown', 1, 1)], TIME);
  expect(heaviest(frames, 0).map(({ name, slept_us }) => [name, slept_us])).toEqual([
    ['main', 0],
    ['work', 24],
    ['unknown', 0],
  ]);
});

test('without call paths there are none', () => expect(heaviest(framesOf([], TIME), 0)).toEqual([]));
