import { expect, test } from 'vitest';
import { programsOf } from '../../../src/workflow/model/mpi';

test('ranks of different programs are not mixed', () => {
  const times = [
    { program: 'heat', rank: 0, time_us: 10 },
    { program: 'heat', rank: 1, time_us: 30 },
    { program: 'learn', rank: 0, time_us: 0 },
  ];
  expect(programsOf(times)).toEqual([
    { program: 'heat', ranks: times.slice(0, 2), mean_us: 20, most_us: 30, balance: 2 / 3 },
    { program: 'learn', ranks: times.slice(2), mean_us: 0, most_us: 0, balance: 1 },
  ]);
  expect(programsOf([])).toEqual([]);
});
