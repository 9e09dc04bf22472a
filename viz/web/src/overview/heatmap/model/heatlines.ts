/** The heat map as lines of a table: the same cells, those with most anomalies first. */

import { UNKNOWN } from './grid';
import { placesOf, startOf, stepsOf, valueOf, type HeatLayout } from './heatlayout';
import type { Range } from '../../../shared/address/model/view';

export interface HeatLine {
  places: Range;
  steps: Range;
  /** Most anomalies that one rank had in one step; null where none was analysed. */
  count: number | null;
  start_us: number;
}

/** Cells with anomalies, worst and then newest first; then what was not analysed, as far as it follows in a row. */
export function heatLines(layout: HeatLayout): HeatLine[] {
  const counted: HeatLine[] = [];
  const unknown: HeatLine[] = [];
  layout.bands.forEach((_, row) => {
    const places = placesOf(layout, row, row);
    let open: HeatLine | null = null;
    for (let column = 0; column < layout.columns; column++) {
      const value = valueOf(layout, { row, column });
      const steps = shown(layout, stepsOf(layout, column));
      if (value !== UNKNOWN) {
        open = null;
        if (value > 0) counted.push({ places, steps, count: value, start_us: startOf(layout, column) });
      } else if (open !== null) open.steps = [open.steps[0], steps[1]];
      else unknown.push((open = { places, steps, count: null, start_us: 0 }));
    }
  });
  counted.sort((a, b) => (b.count as number) - (a.count as number) || b.steps[0] - a.steps[0]);
  return [...counted, ...unknown];
}

const shown = (layout: HeatLayout, [first, last]: Range): Range => [Math.max(first, layout.steps[0]), Math.min(last, layout.steps[1] - 1)];
