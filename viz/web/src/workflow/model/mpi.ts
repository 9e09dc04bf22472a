/** Time in MPI, by program. */

import type { RankTime } from '../../shared/api/types';

export interface ProgramTimes {
  /** Name of the program; empty where it was not published. */
  program: string;
  ranks: RankTime[];
  mean_us: number;
  most_us: number;
  /** Mean divided by the maximum: 1 where all ranks are equal. */
  balance: number;
}

/** Group the ranks by program, in the given order. */
export function programsOf(times: readonly RankTime[]): ProgramTimes[] {
  const groups = new Map<string, RankTime[]>();
  for (const one of times) groups.set(one.program, [...(groups.get(one.program) ?? []), one]);
  return [...groups].map(([program, ranks]) => {
    const mean_us = ranks.reduce((sum, one) => sum + one.time_us, 0) / ranks.length;
    const most_us = ranks.reduce((highest, one) => Math.max(highest, one.time_us), 0);
    return { program, ranks, mean_us, most_us, balance: most_us > 0 ? mean_us / most_us : 1 };
  });
}
