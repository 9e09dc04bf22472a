/** Bands of a rank's time where calls are not kept: what its threads did, step by step, in the colours of the budget. */

import { partName, PARTS, type PartLook } from '../../overview/model/budgetparts';
import { duration, exact, percent } from '../../shared/units/units';
import type { StepTime, StepTimes } from '../../shared/api/types';
import type { Interval } from './spans';
import type { TimeAxis } from './timelineaxis';

export interface Band {
  /** Positions along the axis. */
  first: number;
  last: number;
  /** Parts of the time from below, as shares up to 1. */
  parts: readonly (readonly [look: PartLook, from: number, to: number])[];
  time: StepTime;
}

/** Bands of the stretches of steps, in order. */
export function bandsOf({ times }: StepTimes, axis: TimeAxis): Band[] {
  return times.flatMap((time): Band[] => {
    const total = PARTS.reduce((sum, part) => sum + part.of(time), 0);
    if (total <= 0) return [];
    let below = 0;
    const parts = PARTS.filter((part) => part.of(time) > 0).map((part) => [part.look, below, (below += part.of(time) / total)] as const);
    return [{ first: axis.positionOf(time.start_us), last: axis.positionOf(time.end_us), parts, time }];
  });
}

/** Band at a position, where nothing was kept. */
export function bandAt(bands: readonly Band[], notKept: readonly Interval[], position: number): Band | null {
  if (!notKept.some(([first, last]) => first <= position && position <= last)) return null;
  return bands.find(({ first, last }) => first <= position && position <= last) ?? null;
}

/** Lines of a band's tooltip. */
export function bandLines({ parts, time }: Band, { length }: StepTimes): string[] {
  const steps = length === 1 ? `step ${exact(time.step)}` : `steps ${exact(time.step)} to ${exact(time.step + length - 1)}`;
  const total = PARTS.reduce((sum, part) => sum + part.of(time), 0);
  return [
    `${steps}: calls not kept, their time is`,
    ...parts.map(([look, from, to]) => `${partName(look, time.is_sampled)}: ${duration((to - from) * total)}, ${percent(to - from)}`).reverse(),
  ];
}
