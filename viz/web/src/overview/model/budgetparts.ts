/** Parts of a run's budget, in the order in which bars and charts over time show them. */

import type { Budget, StepTime } from '../../shared/api/types';

/** Class of a part's colour in `overview.css`. */
export type PartLook = 'app' | 'mpi' | 'io' | 'gpu' | 'asleep' | 'waiting' | 'unrecorded';

export interface BudgetPart {
  name: string;
  us: number;
  /** Share of the time of all threads, from 0 to 1. */
  share: number;
  look: PartLook;
}

interface Part {
  look: PartLook;
  /** Name where samples of nodes say how long threads slept, and without any. */
  names: readonly [sampled: string, otherwise: string];
  /** Time of it in a stretch of steps. */
  of: (time: StepTime) => number;
}

/** Parts of the time over steps, from below. */
export const PARTS: readonly Part[] = [
  { look: 'app', names: ['computing', 'computing or asleep'], of: (time) => time.computing_us },
  { look: 'mpi', names: ['MPI', 'MPI'], of: (time) => time.mpi_us },
  { look: 'io', names: ['I/O', 'I/O'], of: (time) => time.io_us },
  { look: 'gpu', names: ['GPU', 'GPU'], of: (time) => time.gpu_us },
  { look: 'asleep', names: ['asleep', 'awaiting'], of: (time) => time.asleep_us },
  { look: 'waiting', names: ['waiting for a core', 'waiting for a core'], of: (time) => time.waiting_us },
];

/** Name of a part. */
export const partName = (look: PartLook, isSampled: boolean): string => PARTS.find((part) => part.look === look)?.names[isSampled ? 0 : 1] ?? 'not recorded';

/** Parts that took any time; their shares add up to 1. */
export function partsOf({ shares, total_us, is_sampled }: Budget): BudgetPart[] {
  const parts: readonly (readonly [look: PartLook, us: number, name?: string])[] = [
    ['app', shares.computing_us],
    ['mpi', shares.point_to_point_us + shares.collective_us + shares.other_mpi_us],
    ['io', shares.io_us],
    ['gpu', shares.gpu_us],
    ['asleep', shares.threads_us, 'waiting for other threads'],
    ['asleep', shares.asleep_us],
    ['waiting', shares.waiting_us],
    ['unrecorded', shares.not_recorded_us],
  ];
  return parts.filter(([, us]) => us > 0).map(([look, us, name]) => ({ name: name ?? partName(look, is_sampled), us, share: us / total_us, look }));
}

/** Share of the time of all threads that was lost, from 0 to 1. */
export function lostShare({ lost, total_us }: Budget): number {
  const us = lost.incidents_us + lost.recurring_us + lost.imbalance_us + lost.analysis_us;
  return total_us > 0 ? Math.min(1, us / total_us) : 0;
}
