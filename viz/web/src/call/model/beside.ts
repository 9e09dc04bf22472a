/** Activity of a node's threads around a call, as bars over time and in words. */

import type { Look, NodeBeside } from '../../shared/api/types';
import { duration, exact, percent, plural } from '../../shared/units/units';

/** Activities of a thread, from the foot of a bar to its top; for the rest of the time it slept. */
export const ACTIVITIES = ['program', 'kernel', 'waited'] as const;
export type Activity = (typeof ACTIVITIES)[number];

export const WORDS: Readonly<Record<Activity | 'stopped', string>> = {
  program: 'in the program',
  kernel: 'in the kernel',
  waited: 'waited for a core',
  stopped: 'stopped',
};

export interface Bar {
  /** Position and width, as shares of the picture's width. */
  x: number;
  width: number;
  activity: Activity | 'stopped';
  /** Foot and top, as shares of a lane's height. */
  low: number;
  high: number;
}

type Interval = Pick<NodeBeside, 'from_us' | 'to_us'>;

/** Bars of one thread. */
export function barsOf(looks: readonly Look[], { from_us, to_us }: Interval): Bar[] {
  const length = to_us - from_us;
  return looks.flatMap((look): Bar[] => {
    const begin = Math.max(look.begin_us, from_us);
    const end = Math.min(look.begin_us + look.length_us, to_us);
    const place = { x: (begin - from_us) / length, width: (end - begin) / length };
    if (end <= begin) return [];
    if (/^[Tt]$/.test(look.state) && look.ran_us < look.length_us / 2) return [{ ...place, activity: 'stopped' as const, low: 0, high: 1 }];
    const shares = { program: look.ran_us - look.system_us, kernel: look.system_us, waited: look.waited_us };
    let low = 0;
    return ACTIVITIES.flatMap((activity) => {
      // A wait is counted when it ends, and may have begun before the sample.
      const high = Math.min(1, low + Math.max(0, shares[activity]) / look.length_us);
      const bar = { ...place, activity, low, high };
      low = high;
      return high > bar.low ? [bar] : [];
    });
  });
}

/** Activities of the call's thread in the time that was lost, the longest first. */
export function besideText(found: NodeBeside): string {
  const whole = found.times.reduce((sum, one) => sum + one.time_us, 0);
  const parts = [...found.times].sort((a, b) => b.time_us - a.time_us);
  return parts.map(({ what, time_us }) => `${duration(time_us)} ${what} (${percent(whole > 0 ? time_us / whole : 0)})`).join(', ');
}

/** Counts of the call's thread, in words. */
export function countsText(found: NodeBeside): string {
  const [faults, read] = [Math.round(found.minor_faults), Math.round(found.major_faults)];
  const parts = [
    plural(faults, 'page fault'),
    read > 0 && `${exact(read)} with pages read from storage`,
    `${plural(Math.round(found.slices), 'time')} scheduled on a core`,
    found.moves > 0 && `${plural(found.moves, 'time')} moved to another core`,
  ];
  return parts.filter((part) => part !== false).join(' · ');
}

/** Cells of one GPU: in the time that was lost, and usually. */
export function gpuCells(one: NodeBeside['gpus'][number]): string[] {
  const shares = [one.busy_share, one.usual_busy_share, one.throttled_share, one.usual_throttled_share];
  return [String(one.gpu), ...shares.map(percent), one.foreign > 0 ? String(one.foreign) : 'none'];
}
