/** Parts of a run's budget, in the order in which a bar shows them. */

import type { Budget } from '../../shared/api/types';

export interface BudgetPart {
  name: string;
  us: number;
  /** Share of the time of all threads, from 0 to 1. */
  share: number;
  /** Class of its colour in `overview.css`. */
  look: string;
}

/** Parts that took any time; their shares add up to 1. */
export function partsOf({ shares, total_us, is_sampled }: Budget): BudgetPart[] {
  const parts: readonly (readonly [name: string, us: number, look: string])[] = [
    [is_sampled ? 'computing' : 'computing or asleep', shares.computing_us, 'app'],
    ['MPI', shares.point_to_point_us + shares.collective_us + shares.other_mpi_us, 'mpi'],
    ['I/O', shares.io_us, 'io'],
    ['GPU', shares.gpu_us, 'gpu'],
    ['waiting for other threads', shares.threads_us, 'asleep'],
    [is_sampled ? 'asleep' : 'awaiting', shares.asleep_us, 'asleep'],
    ['waiting for a core', shares.waiting_us, 'waiting'],
    ['not recorded', shares.not_recorded_us, 'unrecorded'],
  ];
  return parts.filter(([, us]) => us > 0).map(([name, us, look]) => ({ name, us, share: us / total_us, look }));
}

/** Share of the time of all threads that was lost, from 0 to 1. */
export function lostShare({ lost, total_us }: Budget): number {
  const us = lost.incidents_us + lost.recurring_us + lost.imbalance_us + lost.analysis_us;
  return total_us > 0 ? Math.min(1, us / total_us) : 0;
}
