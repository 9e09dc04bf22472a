/** Change of the calls of each call path since another run, as the flame graph shows it. */

import { between, change, decisive, VERDICT_MARKS, VERDICT_WORDS } from './comparison';
import type { Frame } from '../../flame/model/frames';
import { duration, exact } from '../../shared/units/units';
import type { Shift } from '../../shared/api/types';

/** Change from which on a colour is deepest: twice as long, or half. */
const DEEPEST = Math.log(2);
const FAINTEST = 0.2;
/** Deepest colour on which names have a contrast of 4.5, also on the blue of the dark theme. */
export const STRONGEST = 0.5;

/**
 * Shift of each frame's call path, by the frame's index; null where there is none.
 *
 * @param programs names by number.
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
  /** Strength of the colour, from 0 to 1. */
  strength: number;
  mark: string;
}

/** Colour and mark of a shift: only what is certainly slower or faster has a colour, the deeper the larger the change. */
export function depthOf(shift: Shift | null): Depth {
  const { verdict, effect } = shift === null ? { verdict: 'unclear' as const, effect: null } : decisive(shift);
  if (effect === null || (verdict !== 'slower' && verdict !== 'faster')) return { colour: 'unknown', strength: 0.35, mark: '' };
  const share = Math.min(1, Math.abs(Math.log1p(effect)) / DEEPEST);
  return { colour: verdict === 'slower' ? 'anomaly' : 'faster', strength: FAINTEST + (STRONGEST - FAINTEST) * share, mark: `${VERDICT_MARKS[verdict]} ` };
}

/** Lines of a shift's tooltip. */
export function shiftLines(shift: Shift | null, frame: Frame): string[] {
  if (shift === null) return frame.calls > 0 ? ['not compared: it is new, or not among the paths that changed most'] : [];
  const { verdict, effect } = decisive(shift);
  return [
    `${VERDICT_MARKS[verdict]} ${VERDICT_WORDS[verdict]}: ${change(effect)} per call, ${between(shift)}`,
    `exclusive mean ${duration(shift.mean_us[0])} per call, now ${duration(shift.mean_us[1])}`,
    `${exact(shift.calls[0])} calls before, ${exact(shift.calls[1])} after`,
  ];
}
