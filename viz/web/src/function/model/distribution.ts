/** Distribution of a function's runtimes, laid out on a logarithmic axis. */

import { scaleLog } from 'd3-scale';
import { columnUnit, duration, inUnit, type DurationUnit } from '../../shared/units/units';
import type { Bucket, CallSummary, Distribution } from '../../shared/api/types';
import { logTicks } from '../../shared/charts/model/ticks';

/** Share of the calls that took less than `us`, by the buckets; null where nothing is counted. */
export function shareBelow(us: number, buckets: readonly Bucket[]): number | null {
  const all = buckets.reduce((sum, bucket) => sum + bucket.calls, 0);
  if (all === 0) return null;
  const below = buckets.reduce((sum, { lower_us, upper_us, calls }) => {
    const part = (us - lower_us) / (upper_us - lower_us);
    return sum + calls * Math.min(1, Math.max(0, part));
  }, 0);
  return below / all;
}

/** Median runtime; null where nothing is counted. */
export function medianOf(buckets: readonly Bucket[]): number | null {
  const bucket = buckets.find(({ upper_us }) => (shareBelow(upper_us, buckets) ?? 0) >= 0.5);
  if (bucket === undefined) return null;
  const [before, after] = [shareBelow(bucket.lower_us, buckets) ?? 0, shareBelow(bucket.upper_us, buckets) ?? 1];
  return bucket.lower_us + ((0.5 - before) / (after - before)) * (bucket.upper_us - bucket.lower_us);
}

/** A share of `calls` as a percentile, with as many digits as it needs to differ from 100. */
export function percentile(share: number, calls: number): string {
  const rest = 100 * Math.max(1 - share, 1 / calls);
  const decimals = Math.max(0, Math.ceil(-Math.log10(rest)));
  return `p${(100 - rest).toFixed(decimals)}`;
}

/** Calls by runtime: of the whole run where that is known, or else as the detector's model has them. */
export const bucketsOf = (distribution: Distribution): readonly Bucket[] | null => distribution.counted ?? distribution.buckets;

/** Number of calls in the picture. */
export function callsIn(distribution: Distribution, metric: 'exclusive' | 'inclusive'): number {
  const buckets = bucketsOf(distribution);
  return buckets === null ? distribution[metric].calls : Math.round(buckets.reduce((sum, bucket) => sum + bucket.calls, 0));
}

/** Runtimes at which flagging begins, in both directions: all ends of the spans of ordinary runtimes. */
export function limitsOf(distribution: Distribution): number[] {
  return distribution.ordinary.flatMap(({ lower_us, upper_us }) => [lower_us, upper_us]).filter((us) => us !== null);
}

export const isFlagged = (us: number, distribution: Distribution): boolean =>
  !distribution.ordinary.some(({ lower_us, upper_us }) => (lower_us ?? -Infinity) <= us && us < (upper_us ?? Infinity));

/** Whether a call that took so long is abnormal by the range of its own call path alone. */
export const isByPath = ({ label, expected_us }: Pick<CallSummary, 'label' | 'expected_us'>, us: number, distribution: Distribution): boolean =>
  label === 'anomaly' && expected_us > 0 && expected_us <= distribution.by_path_to_us && !isFlagged(us, distribution);

/** Range by which such a call was judged, in words; lists of calls have no spread. */
export const pathRange = ({ expected_us, spread_us }: { expected_us: number; spread_us?: number }): string =>
  `range of this call path: ${spread_us === undefined ? 'about ' : ''}${duration(expected_us)}${spread_us === undefined ? '' : ` ± ${duration(spread_us)}`}`;

/** Runtimes that are flagged, in words, such as `flag ≥ 168 ms`. */
export function flaggedText(distribution: Distribution): string {
  const { ordinary } = distribution;
  const limits = limitsOf(distribution);
  if (limits.length === 0) return 'nothing is flagged yet';
  const [first, last] = [ordinary[0]?.lower_us ?? null, ordinary[ordinary.length - 1]?.upper_us ?? null];
  const ends = [...(first === null ? [] : [`< ${duration(first)}`]), ...(last === null ? [] : [`≥ ${duration(last)}`])];
  const gaps = ordinary.length - 1;
  return `flag ${ends.join(', ')}${gaps > 0 ? `, and ${gaps} gap${gaps > 1 ? 's' : ''}` : ''}`;
}

export interface Axis {
  xOf: (us: number) => number;
  ticks: { x: number; text: string }[];
  unit: DurationUnit;
}

const MARGIN = 1.16;

/** A logarithmic axis from the shortest to the longest of some runtimes, with a margin. */
export function logAxis(runtimes: readonly number[], width: number): Axis {
  const known = runtimes.filter((us) => us > 0 && Number.isFinite(us));
  const [shortest, longest] = known.length === 0 ? [1, 10] : [Math.min(...known), Math.max(...known)];
  const [low, high] = [shortest / MARGIN, longest * MARGIN];
  const scale = scaleLog([low, high], [0, width]);
  const xOf = (us: number): number => scale(Math.max(us, 1e-3));
  // The unit of the middle: in that of the longest, a microsecond would read 0.000001 s.
  const middle = columnUnit([Math.sqrt(shortest * longest)]);
  const unit = middle === 'clock' ? 's' : middle;
  return { xOf, unit, ticks: logTicks(low, high, Math.floor(width / 64)).map((us) => ({ x: xOf(us), text: inUnit(us, unit) })) };
}

export interface Column {
  x: number;
  width: number;
  height: number;
  bucket: Bucket;
  flagged: boolean;
}

/** Bars of the buckets; those that are not empty are at least 2 px high, so that one call in 100,000 is seen. */
export function columnsOf(distribution: Distribution, axis: Axis, height: number): Column[] {
  const buckets = bucketsOf(distribution) ?? [];
  const most = Math.max(1, ...buckets.map((bucket) => bucket.calls));
  return buckets
    .filter((bucket) => bucket.calls > 0)
    .map((bucket) => {
      const [x, end] = [axis.xOf(bucket.lower_us), axis.xOf(bucket.upper_us)];
      return { x, width: end - x, height: Math.max(2, (bucket.calls / most) * height), bucket, flagged: isFlagged(bucket.lower_us, distribution) };
    });
}

export interface Label {
  x: number;
  text: string;
}

export interface Placed extends Label {
  lane: number;
  anchor: 'start' | 'end';
}

const CHARACTER_PX = 6.4;

/** Put each label beside its mark, in the first lane where it covers no other. */
export function inLanes<T extends Label>(labels: readonly T[], width: number): (T & Placed)[] {
  const ends: [from: number, to: number][][] = [];
  return labels.map((label) => {
    const length = label.text.length * CHARACTER_PX + 16;
    const anchor = label.x + length > width && label.x > width / 2 ? 'end' : 'start';
    const [from, to] = anchor === 'start' ? [label.x - 8, label.x + length] : [label.x - length, label.x + 8];
    let lane = ends.findIndex((taken) => taken.every(([first, last]) => to < first || from > last));
    if (lane < 0) lane = ends.push([]) - 1;
    ends[lane]?.push([from, to]);
    return { ...label, lane, anchor };
  });
}
