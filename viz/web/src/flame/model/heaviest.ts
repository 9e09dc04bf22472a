/** Functions of a flame graph, each over all call paths to it. */

import type { Frame } from './frames';

export interface Heavy {
  name: string;
  program: number;
  /** Exclusive time. */
  own_us: number;
  /** Part of the exclusive time that was slept, as far as it is known. */
  slept_us: number;
  /** Inclusive time; recursive calls are counted once. */
  total_us: number;
  calls: number;
}

/** Functions in and below a frame, the most exclusive time first. */
export function heaviest(frames: readonly Frame[], below: number): Heavy[] {
  const found = new Map<string, Heavy>();
  const inside = new Uint8Array(frames.length);
  frames.forEach((frame, at) => {
    inside[at] = at === below || (frame.parent >= 0 && inside[frame.parent] === 1) ? 1 : 0;
    if (inside[at] === 0 || at === 0) return;
    const key = keyOf(frame);
    const heavy = found.get(key) ?? { name: frame.name, program: frame.program, own_us: 0, slept_us: 0, total_us: 0, calls: 0 };
    heavy.own_us += frame.own_us;
    heavy.slept_us += frame.slept_us;
    heavy.calls += frame.calls;
    if (!isInItself(frames, at, below)) heavy.total_us += frame.total_us;
    found.set(key, heavy);
  });
  return [...found.values()].filter(({ total_us }) => total_us > 0).sort((a, b) => b.own_us - a.own_us || b.total_us - a.total_us);
}

const keyOf = ({ program, name }: Frame): string => `${program} ${name}`;

/** Whether one of its callers, up to a frame, is the same function. */
function isInItself(frames: readonly Frame[], index: number, upTo: number): boolean {
  const own = keyOf(frames[index] as Frame);
  for (let at = index; at !== upTo;) {
    at = (frames[at] as Frame).parent;
    if (at > 0 && keyOf(frames[at] as Frame) === own) return true;
  }
  return false;
}
