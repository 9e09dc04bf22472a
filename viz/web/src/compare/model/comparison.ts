/** Changes between two runs: how they are drawn and described. */

import * as units from '../../shared/units/units';
import { digits, duration, exact } from '../../shared/units/units';
import type { BothRuntimes, Change, Rate, Shift, TimeChange } from '../../shared/api/types';

/** Marks of verdicts, so that colour alone tells nothing. */
export const VERDICT_MARKS = { slower: '▲', faster: '▼', same: '=', unclear: '·' } as const;
export const VERDICT_WORDS = { slower: 'slower', faster: 'faster', same: 'as before', unclear: 'undecided' } as const;

/** Words for rows of time that belong to no function of their own. */
export const NAMELESS: Partial<Record<TimeChange['kind'], string>> = { 'in no known call': 'in no known call', others: 'all others' };

const LEAST_REACH = Math.log(1.1);
const MOST_REACH = Math.log(4);

/** A change in percent, or that it is unknown. */
export const change = (effect: number | null): string => (effect === null ? 'unknown' : units.change(effect));

/** The change that decides whether a function is slower: that of its mean, or of its usual runtime. */
export function decisive(shift: Shift): Change {
  return shift[shift.decided_by];
}

/** Runtimes before and after that the deciding change compares. */
export function runtimesOf(shift: Shift): readonly (number | null)[] {
  return shift.decided_by === 'mean' ? shift.mean_us : shift.ordinary_us;
}

export function between(shift: Shift): string {
  const { low, high } = decisive(shift);
  return low === null || high === null ? 'unknown' : `${change(low)} to ${change(high)}`;
}

/** Time lost or gained in all. */
export function lost(shift: Shift): string {
  const { effect, lost_us } = decisive(shift);
  return effect === null ? 'unknown' : duration(lost_us);
}

export function rate(value: Rate): string {
  return `${digits(value.per_million)} (${digits(value.low)} to ${digits(value.high)})`;
}

/** Half the length of the axis, as a logarithm: enough for all certain changes, and for most intervals of the others. */
export function reachOf(shifts: readonly Shift[]): number {
  const changes = shifts.map(decisive);
  const named = changes.filter(({ verdict }) => verdict === 'slower' || verdict === 'faster');
  const bounds = (named.length > 0 ? named : changes).flatMap(({ low, high }) =>
    low === null || high === null ? [] : [Math.abs(Math.log1p(low)), Math.abs(Math.log1p(high))],
  );
  bounds.sort((a, b) => a - b);
  const wanted = named.length > 0 ? bounds[bounds.length - 1] : bounds[Math.floor(bounds.length / 2)];
  return Math.min(MOST_REACH, Math.max(LEAST_REACH, 1.15 * (wanted ?? 0)));
}

/** Position on the axis from 0 to 1; 0.5 is no change. */
export function positionOf(effect: number, reach: number): number {
  return Math.min(1, Math.max(0, 0.5 + Math.log1p(effect) / (2 * reach)));
}

const TICKS = [0.05, 0.1, 0.25, 0.5, 0.75, 1, 2];

/** Changes at which the axis has ticks, such as -25 %, 0 and 25 %: one on each side, so that their labels never overlap. */
export function ticksOf(reach: number): number[] {
  const furthest = (sign: number): number[] => {
    const fitting = TICKS.filter((size) => sign * size > -1 && Math.abs(Math.log1p(sign * size)) <= 0.85 * reach);
    return fitting.slice(-1).map((size) => sign * size);
  };
  return [...furthest(-1), 0, ...furthest(1)];
}

export interface Bar {
  lower_us: number;
  upper_us: number;
  before: number;
  after: number;
}

/** Shares of the calls of each run by runtime, in at most `most` bars. */
export function barsOf(found: BothRuntimes, most = 48): Bar[] {
  const size = Math.ceil(found.before.length / most);
  const totals = [sum(found.before), sum(found.after)] as const;
  const bars: Bar[] = [];
  for (let at = 0; at < found.before.length; at += size) {
    const end = Math.min(at + size, found.before.length);
    bars.push({
      lower_us: found.edges_us[at] as number,
      upper_us: found.edges_us[end] as number,
      before: sum(found.before.slice(at, end)) / totals[0],
      after: sum(found.after.slice(at, end)) / totals[1],
    });
  }
  return withoutTails(bars);
}

const RARE = 0.001;

/** Leave out the tails, where fewer than one call in a thousand lies: they would compress everything else. */
function withoutTails(bars: readonly Bar[]): Bar[] {
  const isSeen = (bar: Bar): boolean => bar.before >= RARE || bar.after >= RARE;
  const first = bars.findIndex(isSeen);
  return first < 0 ? [...bars] : bars.slice(first, bars.findLastIndex(isSeen) + 1);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** One sentence for readers who do not see the picture. */
export function shiftSummary(shift: Shift): string {
  const [before, after] = runtimesOf(shift).map((us) => (us === null ? 'unknown' : duration(us)));
  return `${shift.decided_by === 'mean' ? 'In the mean ' : ''}${before} before, ${after} after; ${exact(shift.calls[0])} and ${exact(shift.calls[1])} calls.`;
}
