/** Runs beside each other, in words. */

import { clock, duration } from '../../shared/units/units';
import type { ListedRun } from '../../shared/api/types';

/** How a run is: what it said last, and how its application ended. */
export function stateOf({ state, exit_code }: ListedRun): string {
  return state === 'finished' && exit_code !== null ? `finished, exit ${exit_code}` : state;
}

/** How long it took; '' where it goes on, or nobody knows. */
export function lengthOf({ started_us, ended_us }: ListedRun): string {
  const us = ended_us - started_us;
  if (ended_us === 0 || us < 0) return '';
  return us < 60e6 ? duration(us) : clock(us);
}

/** What the list of runs opens with. */
export function runsAnswer(runs: readonly ListedRun[], own: string): string {
  const others = runs.filter((run) => !run.is_this).length;
  if (others === 0) return `${own} is the only run in its folder.`;
  return `${others} other ${others === 1 ? 'run' : 'runs'} can be compared with ${own}.`;
}
