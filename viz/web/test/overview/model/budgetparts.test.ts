import { describe, expect, test } from 'vitest';
import { lostShare, partsOf } from '../../../src/overview/model/budgetparts';
import type { Budget } from '../../../src/shared/api/types';

const budget: Budget = {
  wall_us: 50,
  threads: 2,
  total_us: 100,
  shares: {
    computing_us: 40,
    point_to_point_us: 10,
    collective_us: 15,
    other_mpi_us: 5,
    io_us: 0,
    gpu_us: 0,
    threads_us: 0,
    asleep_us: 20,
    waiting_us: 0,
    not_recorded_us: 10,
  },
  functions: [],
  is_sampled: true,
  lost: { incidents_us: 20, recurring_us: 5, imbalance_us: 0, analysis_us: 0 },
  not_judged: [],
  sentence: '',
};

describe('the parts of a budget', () => {
  test('are those that took time, and add up to all of it', () => {
    const parts = partsOf(budget);
    expect(parts.map(({ name, share }) => [name, share])).toEqual([
      ['computing', 0.4],
      ['MPI', 0.3],
      ['asleep', 0.2],
      ['not recorded', 0.1],
    ]);
    expect(parts.reduce((sum, { us }) => sum + us, 0)).toBe(budget.total_us);
  });

  test('are the base of what was lost', () => {
    expect(lostShare(budget)).toBe(0.25);
  });

  test('are none before anything is known', () => {
    expect(lostShare({ ...budget, total_us: 0 })).toBe(0);
  });
});
