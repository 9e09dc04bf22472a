import { describe, expect, it } from 'vitest';
import { intervalText, meansOf, meanText, pathsOf, restOf, unknownPath } from '../../../src/node/model/nodechart';

const chart = {
  bands: [
    { colour: 'program', text: 'in the program' },
    { colour: 'kernel', text: 'in the kernel' },
    { colour: 'waited', text: 'waited for a core' },
  ],
  rest: 'slept',
} as const;
const lane = {
  key: '1',
  name: '',
  title: '',
  shares: [
    [0.5, 0.5, null, 0],
    [0.25, 0.25, null, 0],
    [0, 0, null, 1],
  ],
};

describe('a lane of a chart of a node', () => {
  it('stacks its shares, alike intervals as one bar, and shows what was not sampled', () => {
    expect(pathsOf(lane, 40, 20)).toEqual(['M0 10H20V20H0Z', 'M0 5H20V10H0Z', 'M30 0H40V20H30Z']);
    expect(unknownPath(lane, 40, 20)).toBe('M20 0h10v20h-10Z');
  });

  it('says what it did in each interval, and on average', () => {
    expect([0, 2, 3].map((column) => intervalText(chart, lane, column))).toEqual([
      '50 % in the program, 25 % in the kernel, 25 % slept',
      'not sampled',
      '100 % waited for a core',
    ]);
    expect(meansOf(lane).map((mean) => mean && Number(mean.toFixed(3)))).toEqual([0.333, 0.167, 0.333]);
    expect(meanText(chart, lane)).toBe('33.3 % in the program, 16.7 % in the kernel, 33.3 % waited for a core, 16.7 % slept');
    expect([restOf([0.5, 0.25]), restOf([null, 0.25])]).toEqual([0.25, null]);
  });
});
