import { expect, test } from 'vitest';
import { barsOf, besideText, countsText, gpuCells } from '../../../src/call/model/beside';
import type { Look, NodeBeside } from '../../../src/shared/api/types';

const look = (more: Partial<Look>): Look => ({
  begin_us: 0,
  length_us: 20,
  ran_us: 0,
  system_us: 0,
  waited_us: 0,
  state: 'S',
  core: 0,
  minor_faults: 0,
  ...more,
});

test('bars stack what a thread did, never higher than its lane, and end where the picture does', () => {
  const looks = [look({ ran_us: 10, system_us: 4, waited_us: 30 }), look({ begin_us: 20, state: 'T' }), look({ begin_us: 40, length_us: 50 })];
  expect(barsOf(looks, { from_us: 10, to_us: 60 })).toEqual([
    { x: 0, width: 0.2, activity: 'program', low: 0, high: 0.3 },
    { x: 0, width: 0.2, activity: 'kernel', low: 0.3, high: 0.5 },
    { x: 0, width: 0.2, activity: 'waited', low: 0.5, high: 1 },
    { x: 0.2, width: 0.4, activity: 'stopped', low: 0, high: 1 },
  ]);
  expect(barsOf([look({ begin_us: 100, ran_us: 9 })], { from_us: 10, to_us: 60 })).toEqual([]);
});

test('what it did most comes first, and counts are in words', () => {
  const found = {
    times: [
      { what: 'in the program', time_us: 20_000 },
      { what: 'waited for a core', time_us: 80_000 },
    ],
    minor_faults: 1,
    major_faults: 0,
    slices: 12.4,
    moves: 3,
  } as NodeBeside;
  expect(besideText(found)).toBe('80 ms waited for a core (80 %), 20 ms in the program (20 %)');
  expect(countsText(found)).toBe('1 page fault · 12 times scheduled on a core · 3 times moved to another core');
});

test('a GPU has what it did beside what is usual of it', () => {
  const one = { gpu: 2, busy_share: 0.955, usual_busy_share: 0.1, throttled_share: 0.5, usual_throttled_share: 0, foreign: 0 };
  expect(gpuCells(one)).toEqual(['2', '95.5 %', '10 %', '50 %', '0 %', 'none']);
});
