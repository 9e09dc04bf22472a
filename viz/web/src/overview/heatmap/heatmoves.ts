/** Moves on the heat map: arrow keys, zooming and panning. */

import { batch } from '@preact/signals';
import { layerOf, UNKNOWN } from './model/grid';
import { allPlaces, placesOf, stepsOf, type Cell, type HeatLayout } from './model/heatlayout';
import { zoomed } from '../steps/model/steplayout';
import { shareOf } from './model/window';
import { go, view } from '../../shared/address/address';
import { end, moveRanks, moveSteps, showRanks, showSteps } from './grid';
import type { Range } from '../../shared/address/model/ranges';

export const ZOOM = 0.7;

/** State at the beginning of a pan. */
export interface Held {
  x: number;
  y: number;
  steps: Range;
  places: Range | null;
}

/** First and last step shown, of those that exist. */
export const shown = ({ steps }: HeatLayout): Range => [steps[0], Math.max(steps[0], Math.min(steps[1], end.value) - 1)];

/** Zoom to some ranks and steps; null shows all. */
export function zoomTo({ ranks, steps }: { ranks: Range | null; steps: Range | null }): void {
  batch(() => {
    if (ranks !== null) showRanks(ranks, 'push');
    if (steps !== null) showSteps(steps, ranks === null ? 'push' : 'replace');
  });
}

/** Cell that an arrow key leads to. */
export function neighbour(layout: HeatLayout, from: Cell | null, key: string): Cell | null {
  const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[key];
  if (way === undefined || layout.bands.length === 0) return null;
  if (from === null) return worstCell(layout);
  const [down, right] = way as [number, number];
  const row = Math.min(layout.bands.length - 1, Math.max(0, from.row + down));
  const column = Math.min(layout.columns - 1, Math.max(0, from.column + right));
  return { row, column };
}

/** Cell where the keyboard begins: the worst one. */
function worstCell(layout: HeatLayout): Cell {
  const [cells, { columns }] = [layerOf(layout, view.value.measure), layout];
  let most = 0;
  cells.forEach((value, at) => {
    if (value !== UNKNOWN && (cells[most] === UNKNOWN || value > (cells[most] as number))) most = at;
  });
  return { row: Math.floor(most / columns), column: most % columns };
}

/** Zoom or pan by a key, along the ranks with Shift; return whether the key does that. */
export function zoomKey({ key, shiftKey }: KeyboardEvent, layout: HeatLayout, cell: Cell | null): boolean {
  const range = shown(layout);
  const step = cell ? stepsOf(layout, cell.column)[0] : Math.floor((range[0] + range[1]) / 2);
  const centre = cell ?? { row: Math.floor(layout.bands.length / 2), column: 0 };
  const steps: Record<string, () => void> = {
    w: () => showSteps(zoomed(range, step, ZOOM)),
    s: () => showSteps(zoomed(range, step, 1 / ZOOM)),
    a: () => moveSteps(range, shareOf(range, -0.3)),
    d: () => moveSteps(range, shareOf(range, 0.3)),
    f: () => showSteps(view.value.steps ?? range),
    '0': () => go({ ranks: null, zoom: null, newest: 0 }),
  };
  const ranks: Record<string, () => void> = {
    w: () => zoomRanks(layout, centre, ZOOM),
    s: () => zoomRanks(layout, centre, 1 / ZOOM),
    a: () => panRanks(layout, -0.3),
    d: () => panRanks(layout, 0.3),
  };
  const name = { '+': 'w', '-': 's' }[key] ?? key.toLowerCase();
  const act = (shiftKey && key !== '+' ? ranks : steps)[name];
  act?.();
  return act !== undefined;
}

/** Zoom along the ranks, around a cell. */
export function zoomRanks(layout: HeatLayout, { row }: Cell, factor: number): void {
  const all = allPlaces(layout.grid);
  if (all !== null) showRanks(zoomed(all, placesOf(layout, row, row)[0], factor));
}

function panRanks(layout: HeatLayout, share: number): void {
  const all = allPlaces(layout.grid);
  if (all !== null) moveRanks(all, shareOf(all, share));
}

/** Pan so that ranks and steps stay under the pointer. */
export function panFrom({ x: x0, y: y0, steps, places }: Held, layout: HeatLayout, x: number, y: number): void {
  const columns = Math.round(((x0 - x) / (layout.right - layout.left)) * (steps[1] - steps[0] + 1));
  batch(() => {
    moveSteps(steps, columns);
    if (places === null) return;
    const rows = Math.round(((y0 - y) / (layout.bottom - layout.top)) * (places[1] - places[0] + 1));
    moveRanks(places, rows);
  });
}
