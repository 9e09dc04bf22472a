/** State of the feed in words: what happened, what is shown, and what to do. */

import { count, sinceStart } from '../../units/units';
import type { Status } from '../../api/types';

export type Condition = Status['state'] | 'lost' | 'paused' | 'connecting';

export const SIGNS: Readonly<Record<Condition, readonly [sign: string, name: string]>> = {
  live: ['●', 'Live'],
  behind: ['◐', 'Behind'],
  stale: ['◌', 'Stale'],
  ended: ['■', 'Ended'],
  lost: ['✕', 'No link'],
  paused: ['‖', 'Paused'],
  connecting: ['…', 'Connecting'],
};

export interface Circumstances {
  status: Status | null;
  /** Seconds since the link was lost. */
  lost_s: number | null;
  /** Why a server that answers refuses the page; empty where it does not. */
  refused: string;
  paused: boolean;
  /** Number of anomalies that arrived while paused. */
  arrived: number;
  /** Recent growth of the lag, in µs. */
  lagGrowth_us: number;
}

export function conditionOf({ status, lost_s, paused }: Circumstances): Condition {
  if (lost_s !== null) return 'lost';
  if (paused) return 'paused';
  return status?.state ?? 'connecting';
}

/** Banner: what is wrong or waits, and what to do; empty where all is well. */
export function bannerOf(now: Circumstances): string {
  const { status } = now;
  const asOf = status === null ? 'nothing yet' : `as of ${sinceStart(status.clock_us)}`;
  switch (conditionOf(now)) {
    case 'lost':
      if (now.refused !== '') return `${now.refused} Shown: ${asOf}.`;
      return `Connection lost ${now.lost_s} s ago, retrying. Is the SSH tunnel open, and is the server running? Shown: ${asOf}.`;
    case 'paused':
      return `Paused ${asOf.replace('as of', 'at')} · ${count(now.arrived)} new.`;
    case 'behind':
      return `${status?.sentence.replace(/\.$/, '') ?? ''}${trend(now.lagGrowth_us)}.`;
    case 'stale':
    case 'live':
      return status?.sentence ?? '';
    default:
      return '';
  }
}

/** What to do when the server refuses the page, from its status and message. */
export function whyRefused(status: number, sentence: string): string {
  if (status === 401) return 'The server was restarted and has another token: open the address that it printed.';
  return sentence.replace(/\.?$/, '.');
}

const STEADY_US = 500_000;

function trend(growth_us: number): string {
  if (Math.abs(growth_us) < STEADY_US) return '';
  return growth_us > 0 ? ', growing' : ', catching up';
}
