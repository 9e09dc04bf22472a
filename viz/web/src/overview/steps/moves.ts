/** Zooming and panning that all charts over steps share. */

import type { Range } from '../../shared/address/model/ranges';
import { view } from '../../shared/address/address';
import { positionIn } from '../../shared/charts/pointer';
import { moveSteps, showSteps } from '../heatmap/grid';
import { shareOf } from '../heatmap/model/window';
import { stepAt, zoomed, type Frame } from './model/steplayout';

/** Least length of a drag; anything shorter is a click. */
export const DRAG_PX = 4;

/** Zoom or pan by a key, around the step `middle`; return whether the key does that. */
export function zoomKey(key: string, range: Range, middle: number): boolean {
  const { steps } = view.value;
  const actions: Record<string, () => void> = {
    w: () => showSteps(zoomed(range, middle, 0.7)),
    s: () => showSteps(zoomed(range, middle, 1 / 0.7)),
    a: () => moveSteps(range, shareOf(range, -0.3)),
    d: () => moveSteps(range, shareOf(range, 0.3)),
    f: () => showSteps(steps ?? range),
    '0': () => showSteps(null),
  };
  const action = actions[{ '+': 'w', '-': 's' }[key] ?? key.toLowerCase()];
  action?.();
  return action !== undefined;
}

/** Zoom by the wheel with Ctrl. */
export function zoomWheel(event: WheelEvent, frame: Frame): void {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  showSteps(zoomed(frame.range, stepAt(frame, positionIn(event).x), event.deltaY < 0 ? 0.7 : 1 / 0.7));
}

/** Pan by a drag that began at `from`, when `range` was shown. */
export function pan(frame: Frame, { x: from, range }: { x: number; range: Range }, x: number): void {
  const steps = range[1] - range[0] + 1;
  moveSteps(range, Math.round(((from - x) / (frame.right - frame.left)) * steps));
}

/** Steps between two positions. */
export function stepsBetween(frame: Frame, a: number, b: number): Range {
  const [first, last] = [stepAt(frame, a), stepAt(frame, b)];
  return first <= last ? [first, last] : [last, first];
}
