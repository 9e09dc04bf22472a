import { describe, expect, test } from 'vitest';
import { depthOf, shiftLines, shiftsOf } from '../../../src/compare/model/differential';
import { framesOf, type Frame } from '../../../src/flame/model/frames';
import { node, TIME } from '../../flame/model/paths';
import type { Change, Shift } from '../../../src/shared/api/types';

const frames = framesOf([node(null, 'main', 1, 5), node(0, 'step', 10, 5), node(1, 'work', 100, 3), node(0, 'work', 1, 3)], TIME);

const changeOf = (effect: number, verdict: Change['verdict']): Change => ({
  effect,
  low: effect - 0.1,
  high: effect + 0.1,
  raw: null,
  p_value: 0.001,
  lost_us: 100,
  verdict,
});

const shift = (callers: string[], name: string, effect = 0.5, verdict: Change['verdict'] = 'slower'): Shift => ({
  program: 'heat',
  name,
  callers,
  calls: [100, 120],
  ordinary_us: [2, 3],
  mean_us: [2, 3],
  usual: changeOf(effect, verdict),
  mean: changeOf(effect, verdict),
  decided_by: 'mean',
  is_waiting: false,
  rates: null,
  has_more_anomalies: false,
  distribution: null,
});

test('a frame has the shift of its path, not that of the function elsewhere', () => {
  const [slower, other] = [shift(['main', 'step'], 'work'), shift(['main', 'setup'], 'work')];
  const found = shiftsOf(frames, [slower, other], { 0: 'heat' });
  expect(frames.map(({ name }, at) => [name, found[at]])).toEqual([
    ['', null],
    ['main', null],
    ['step', null],
    ['work', slower],
    ['work', null],
  ]);
  expect(shiftsOf(frames, [slower], { 0: 'another' })).toEqual(frames.map(() => null));
});

describe('colour', () => {
  const strength = (effect: number, verdict: Change['verdict'] = effect > 0 ? 'slower' : 'faster'): number => depthOf(shift([], 'f', effect, verdict)).strength;
  test('slower and faster differ, also without colour', () => {
    expect([depthOf(shift([], 'f')), depthOf(shift([], 'f', -0.5, 'faster'))]).toMatchObject([
      { colour: 'anomaly', mark: '▲ ' },
      { colour: 'faster', mark: '▼ ' },
    ]);
  });
  test('the deeper the larger the change, twice as deep as half, and no deeper', () => {
    expect(strength(0.1)).toBeLessThan(strength(0.5));
    expect(strength(1)).toBeCloseTo(strength(-0.5));
    expect(strength(9)).toBe(strength(1));
  });
  test('what is not certain, and what is not compared, has none', () => {
    for (const one of [null, shift([], 'f', 0.5, 'unclear'), shift([], 'f', 0.01, 'same')]) expect(depthOf(one)).toMatchObject({ colour: 'unknown', mark: '' });
  });
});

test('words', () => {
  const work = frames[3] as Frame;
  expect(shiftLines(shift(['main', 'step'], 'work'), work)).toEqual([
    '▲ slower: +50.0 % per call, +40.0 % to +60.0 %',
    'exclusive mean 2 µs per call, now 3 µs',
    '100 calls before, 120 after',
  ]);
  expect(shiftLines(null, work)).toHaveLength(1);
  expect(shiftLines(null, { ...work, calls: 0 })).toEqual([]);
});
