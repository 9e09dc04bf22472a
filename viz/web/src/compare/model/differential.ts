/** How the calls of each call path changed since another run, as a flame graph shows it. */

import { between, change, decisive, VERDICT_MARKS, VERDICT_WORDS } from './comparison';
import type { Frame } from '../../flame/model/frames';
import { duration, exact } from '../../shared/units/units';
import type { Shift } from '../../shared/api/types';

/** Where calls take twice as long, or half, a colour is as deep as it gets. */
const DEEPEST = Math.log(2);
const FAINTEST = 0.2;
/** Deeper, and names on the dark theme's blue have a contrast below 4.5. */
export const STRONGEST = 0.5;

/**
 * The shift of each frame's path, by its place; null where there is none.
 *
 * @param programs name by number.
 */
export function shiftsOf(frames: readonly Frame[], shifts: readonly Shift[], programs: Readonly<Record<string, string>>): (Shift | null)[] {
  const byPath = new Map(shifts.map((shift) => [[shift.program, ...shift.callers, shift.name].join('\n'), shift]));
  const keys: string[] = [];
  return frames.map((frame, at) => {
    const above = frame.parent > 0 ? (keys[frame.parent] as string) : (programs[frame.program] ?? String(frame.program));
    keys[at] = at === 0 ? '' : `${above}\n${frame.name}`;
    return byPath.get(keys[at]) ?? null;
  });
}

export interface Depth {
  colour: 'anomaly' | 'faster' | 'unknown';
  /** From 0 to 1. */
  strength: number;
  mark: string;
}

/** What is certainly slower or faster has a colour, the deeper the more; the mark says the same without it. */
export function depthOf(shift: Shift | null): Depth {
  const { verdict, effect } = shift === null ? { verdict: 'unclear' as const, effect: null } : decisive(shift);
  if (effect === null || (verdict !== 'slower' && verdict !== 'faster')) return { colour: 'unknown', strength: 0.35, mark: '' };
  const share = Math.min(1, Math.abs(Math.log1p(effect)) / DEEPEST);
  return { colour: verdict === 'slower' ? 'anomaly' : 'faster', strength: FAINTEST + (STRONGEST - FAINTEST) * share, mark: `${VERDICT_MARKS[verdict]} ` };
}

/** A shift in the lines of a tooltip. */
export function shiftLines(shift: Shift | null, frame: Frame): string[] {
  if (shift === null) return frame.calls > 0 ? ['not compared: it is new, or not among the paths that changed most'] : [];
  const { verdict, effect } = decisive(shift);
  return [
    `${VERDICT_MARKS[verdict]} ${VERDICT_WORDS[verdict]}: ${change(effect)} per call, ${between(shift)}`,
    `a call itself took ${duration(shift.mean_us[0])} on average, now ${duration(shift.mean_us[1])}`,
    `${exact(shift.calls[0])} calls before, ${exact(shift.calls[1])} after`,
  ];
}
