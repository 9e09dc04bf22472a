/** Cells of the heat map as lines of a table, the worst first. */

import { lostOfCode } from './bins';
import { UNKNOWN } from './grid';
import { placesOf, startOf, stepsOf, valuesOf, type HeatLayout } from './heatlayout';
import type { Range } from '../../../shared/address/model/ranges';
import type { Measure } from '../../../shared/address/model/view';

export interface HeatLine {
  places: Range;
  steps: Range;
  /** Most anomalies of one rank in one step; null where no step was analysed. */
  count: number | null;
  /** Approximate most time that one rank lost in one step. */
  lost_us: number;
  start_us: number;
}

/** Cells with anomalies, the worst and then the newest first; then those not analysed, consecutive ones as one line. */
export function heatLines(layout: HeatLayout, measure: Measure): HeatLine[] {
  const counted: HeatLine[] = [];
  const unknown: HeatLine[] = [];
  layout.bands.forEach((_, row) => {
    const places = placesOf(layout, row, row);
    let open: HeatLine | null = null;
    for (let column = 0; column < layout.columns; column++) {
      const { count, lost } = valuesOf(layout, { row, column });
      const steps = shown(layout, stepsOf(layout, column));
      if (count !== UNKNOWN) {
        open = null;
        if (count > 0) counted.push({ places, steps, count, lost_us: lostOfCode(lost), start_us: startOf(layout, column) });
      } else if (open !== null) open.steps = [open.steps[0], steps[1]];
      else unknown.push((open = { places, steps, count: null, lost_us: 0, start_us: 0 }));
    }
  });
  const worth = ({ count, lost_us }: HeatLine): number => (measure === 'lost' ? lost_us : (count as number));
  counted.sort((a, b) => worth(b) - worth(a) || b.steps[0] - a.steps[0]);
  return [...counted, ...unknown];
}

const shown = (layout: HeatLayout, [first, last]: Range): Range => [Math.max(first, layout.steps[0]), Math.min(last, layout.steps[1] - 1)];
