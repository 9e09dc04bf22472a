/** Selected time of the timeline: its lines, and what it says of the time in them. */

import { PARTS, partName } from '../../overview/model/budgetparts';
import type { RankKey, SelectionAnswer, StepTimes } from '../../shared/api/types';
import type { Range } from '../../shared/address/model/ranges';
import { duration, percent, plural } from '../../shared/units/units';
import { shorten } from '../../shared/names/names';
import type { Scene } from './lines';

/** A rank's thread, in the form of the address. */
export const lineOf = (rank: RankKey, thread: number): string => `${rank}/${thread}`;

/** Lines between two heights of the scene; none where these are all. */
export function linesIn({ lanes }: Pick<Scene, 'lanes'>, top: number, bottom: number): string[] {
  const found = lanes.filter(({ y, height }) => y <= bottom && y + height >= top);
  return found.length === lanes.length ? [] : found.map(({ spans, thread }) => lineOf(spans.rank, thread));
}

/** Time of a selection in which all calls are known. */
export const knownTime = ({ lines }: Pick<SelectionAnswer, 'lines'>): number => lines.reduce((sum, line) => sum + line.known_us, 0);

/** Share of a selection's time in which all calls are known. */
export const knownShare = (found: SelectionAnswer): number => knownTime(found) / Math.max(1, (found.to_us - found.from_us) * found.lines.length);

/** Sentence on a selection: the function with most time of its own, and how much of the time is known. */
export function selectionAnswer(found: SelectionAnswer): string {
  const { from_us, to_us, lines, functions, merged_us } = found;
  const [most] = functions;
  const [known_us, share] = [knownTime(found), knownShare(found)];
  if (most === undefined || known_us === 0) return 'No call of this time is kept: normal calls were analysed, not kept.';
  const rest = share > 0.995 ? '' : ` Calls of ${percent(share)} of this time are kept; the others were analysed, not kept.`;
  const merged = merged_us === 0 ? '' : ` Calls shorter than ${duration(merged_us)} count as their longest neighbour.`;
  const where = `${duration(to_us - from_us)} of ${plural(lines.length, 'thread')}`;
  const took = `${duration(most.exclusive_us)} of its own, ${percent(most.exclusive_us / known_us)}${share > 0.995 ? '' : ' of what is kept'}`;
  return `${where}: most in ${shorten(most.function, 40).text}, ${took}.${rest}${merged}`;
}

/** What threads did in a range of time, by the steps that reach into it: also where no call is kept. */
export function partsIn(ranks: Iterable<StepTimes>, [first, last]: Range): string {
  const sums = PARTS.map(() => 0);
  let isSampled = true;
  for (const { times } of ranks) {
    for (const time of times) {
      const share = Math.max(0, Math.min(last, time.end_us) - Math.max(first, time.start_us)) / Math.max(1, time.end_us - time.start_us);
      if (share > 0) isSampled &&= time.is_sampled;
      PARTS.forEach((part, at) => (sums[at] = (sums[at] as number) + share * part.of(time)));
    }
  }
  const total = sums.reduce((sum, us) => sum + us, 0);
  if (total <= 0) return '';
  const named = PARTS.flatMap(({ look }, at) =>
    (sums[at] as number) / total < 0.005 ? [] : [`${partName(look, isSampled)} ${percent((sums[at] as number) / total)}`],
  );
  return `Threads of these ranks, all calls: ${named.join(', ')}.`;
}
