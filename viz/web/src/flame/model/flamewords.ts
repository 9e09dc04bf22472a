/** Sentences and tooltips of a flame graph. */

import { pathOf, type Frame, type Matches } from './frames';
import type { Box } from './flamelayout';
import { shorten } from '../../shared/names/names';
import { duration, exact, percent, plural } from '../../shared/units/units';
import type { Weight } from '../../shared/address/model/view';

export const WEIGHT_NAMES: Readonly<Record<Weight, string>> = { time: 'time in calls', lost: 'time lost' };

/** Name of a frame; the first frame stands for all call paths. */
export const nameOf = (frame: Frame, limit: number): string => (frame.name === '' ? 'all call paths' : shorten(frame.name, limit).text);

const shareOf = (us: number, of: Frame | undefined): string => percent(of === undefined || of.total_us <= 0 ? null : us / of.total_us);

/** First sentence of the page: the time in all, and the function with the most exclusive time. */
export function flameAnswer(frames: readonly Frame[], weight: Weight): string {
  const all = frames[0];
  if (all === undefined || all.total_us <= 0) return weight === 'lost' ? 'No time was lost on these call paths.' : 'No call path is known yet.';
  const own = new Map<string, number>();
  for (const frame of frames) if (frame.name !== '') own.set(frame.name, (own.get(frame.name) ?? 0) + frame.own_us);
  const [name, us] = [...own].reduce((most, one) => (one[1] > most[1] ? one : most));
  const what = weight === 'lost' ? 'lost compared with usual runtimes, waits included' : 'in calls';
  return `${duration(all.total_us)} ${what}: ${shareOf(us, all)} in ${shorten(name, 40).text} itself.`;
}

/** Lines of a frame's tooltip. */
export function boxLines(frames: readonly Frame[], box: Pick<Box, 'index' | 'merged' | 'merged_us'>, zoomed: number, weight: Weight): string[] {
  const frame = frames[box.index] as Frame;
  if (box.merged > 0) {
    return [
      `${plural(box.merged, 'call path')} from ${nameOf(frame, 60)}`,
      `${duration(box.merged_us)} in all, each too narrow to be shown`,
      'Zoom in to see them',
    ];
  }
  const shown = frames[zoomed];
  const share = `${shareOf(frame.total_us, frames[0])} of all${zoomed > 0 && box.index !== zoomed ? `, ${shareOf(frame.total_us, shown)} of what is shown` : ''}`;
  const lines = [
    frame.name === '' ? nameOf(frame, 60) : frame.name,
    `inclusive ${duration(frame.total_us)}${weight === 'lost' ? ' lost' : ''}: ${share}`,
    `exclusive ${duration(frame.own_us)}${weight === 'lost' ? ' lost' : frame.slept_us > 0 ? `, ${duration(frame.slept_us)} of it asleep` : ''}`,
  ];
  if (frame.calls > 0) lines.push(`${plural(frame.calls, 'call')}, ${duration(frame.total_us / frame.calls)} ${weight === 'lost' ? 'lost ' : ''}each`);
  if (frame.anomalies > 0) lines.push(`▲ ${plural(frame.anomalies, 'abnormal call')}, ${duration(frame.lost_us)} lost`);
  const callers = pathOf(frames, frame.parent);
  if (callers.length > 0) lines.push(`called by ${callers.map((name) => shorten(name, 24).text).join(' › ')}`);
  return lines;
}

/** Result of a search below a frame, in words. */
export function matchesText(found: Matches, frames: readonly Frame[], zoomed: number): string {
  if (found.count === 0) return 'no frame matches';
  return `${exact(found.count)} match: ${duration(found.total_us)}, ${shareOf(found.total_us, frames[zoomed])}`;
}
