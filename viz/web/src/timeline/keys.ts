/** Keys of the timeline, which act everywhere except in text fields. */

import { nextAnomaly, beside, firstSpot, parentOf, type Spot } from './model/lines';
import { MERGED } from './model/spans';
import { go, view } from '../shared/address/address';
import { isDialogOpen, say } from '../shared/session/page';
import { lettersAct } from '../shared/session/settings';
import * as timeline from './timeline';
import { follow, pan, select, zoom } from './chart';

const STEP = 0.25;

const ACTIONS: Readonly<Record<string, () => void>> = {
  w: () => zoom(1 / 1.5),
  '+': () => zoom(1 / 1.5),
  s: () => zoom(1.5),
  '-': () => zoom(1.5),
  a: () => pan(timeline.shown.value, -STEP),
  d: () => pan(timeline.shown.value, STEP),
  '0': timeline.fitAll,
  f: timeline.fitChosen,
  l: timeline.followNow,
  ',': () => neighbour(-1),
  '.': () => neighbour(1),
  p: parent,
  o: message,
  m: timeline.mark,
  e: () => (timeline.isBoxing.value = !timeline.isBoxing.value),
  x: () => go({ folded: !view.value.folded }, 'replace'),
  g: () => go({ messages: !view.value.messages }, 'replace'),
  '[': () => anomaly(-1),
  ']': () => anomaly(1),
};

/** Listen to keys until the returned function is called, before the keys of all pages, some of which differ here. */
export function listenOnTimeline(): () => void {
  const listen = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || isDialogOpen() || !lettersAct.value) return;
    if (target.matches('input:not([type=checkbox]), select, textarea')) return;
    const action = event.key === 'Escape' && timeline.box.value !== null ? () => timeline.select(null) : ACTIONS[event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    action();
  };
  document.addEventListener('keydown', listen, true);
  return () => document.removeEventListener('keydown', listen, true);
}

const here = (): Spot | null =>
  timeline.chosen.value ?? firstSpot(timeline.scene.value, timeline.shown.value.map(timeline.axis.value.positionOf) as unknown as readonly [number, number]);

function neighbour(way: number): void {
  let spot = here();
  do spot = spot && beside(spot, way);
  while (spot !== null && (spot.line.row.flags[spot.at] as number) & MERGED);
  if (spot === null) say('There is no further call on this line; zoom in to separate short ones.');
  else select(spot);
}

function parent(): void {
  const spot = here();
  const above = spot && parentOf(timeline.scene.value, spot);
  if (above === null) say('The caller of this call is not known.');
  else select(above);
}

function anomaly(way: number): void {
  const { value: spots } = timeline.anomalies;
  const spot = timeline.chosen.value;
  const middle = (timeline.shown.value[0] + timeline.shown.value[1]) / 2;
  const from = spot === null ? timeline.axis.value.positionOf(middle) : (spot.line.begin[spot.at] as number);
  const next = nextAnomaly(spots, from, way);
  if (next === null) say('There is no abnormal call in the times that were read; 0 shows all times.');
  else select(next);
}

/** Go to the other end of the selected call's first message. */
function message(): void {
  const spot = here();
  if (spot === null) return;
  const { line, at } = spot;
  const [begin, end] = [line.row.begin[at] as number, line.row.end[at] as number];
  const link = line.spans.links.find((one) => one.thread === line.row.thread && one.time >= begin && one.time <= end);
  if (link === undefined) say('This call has no messages or launches here.');
  else follow({ link, rank: line.spans.rank, x: 0, y: 0, to: null, isInward: link.kind === 1, waited_us: 0 });
}
