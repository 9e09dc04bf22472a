/** Keys that work everywhere except in text fields. */

import { toPage, up } from '../shared/address/model/trail';
import { go, view } from '../shared/address/address';
import { nextAnomaly } from '../calls/calls';
import * as overview from '../overview/overview';
import { toggleMark, writeNote } from '../incident/marks';
import { comparison } from '../compare/comparison';
import { helpOpen, hideTip, isDialogOpen, say } from '../shared/session/page';
import { togglePause } from '../shared/session/session';
import { lettersAct, setWallTimes, wallTimes } from '../shared/session/settings';
import { toggleTables } from '../shared/parts/panel';
import { focusSearch } from './search';
import { copyCommand, copyLink, here } from './crumbs';

/** Keys that are letters or signs: users of speech input can switch them off. */
const LETTERS: Record<string, () => void> = {
  '/': focusSearch,
  '?': () => (helpOpen.value = true),
  l: () => go({ zoom: null, newest: 0 }),
  '[': () => neighbour(-1),
  ']': () => neighbour(1),
  u: () => go(up(here())),
  h: () => go(toPage('health')),
  v: () => go(toPage('compare')),
  b: () => go({ page: 'wall' }),
  c: copyLink,
  C: copyCommand,
  t: twins,
  z: otherClock,
};

/** Letters that act on the page of an incident or finding. */
const OF_FINDINGS: Record<string, () => void> = {
  k: () => toggleMark('known'),
  i: () => toggleMark('ignored'),
  n: writeNote,
};

const OTHERS: Record<string, () => void> = { Escape: clear, ' ': togglePause };

export function listenToKeys(): void {
  document.addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || isDialogOpen()) return;
    if (target.matches('input:not([type=checkbox]), select, textarea')) {
      if (event.key === 'Escape') target.blur();
      return;
    }
    if (event.key === ' ' && target.matches('button, a, input, summary')) return;
    const letters = view.value.page === 'incident' ? { ...LETTERS, ...OF_FINDINGS } : LETTERS;
    const letter = lettersAct.value ? (letters[event.key] ?? letters[event.key.toLowerCase()]) : undefined;
    const action = OTHERS[event.key] ?? letter;
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

function clear(): void {
  hideTip();
  if (view.value.page === 'wall') return go({ page: 'overview' });
  if (view.value.steps !== null) go({ steps: null, cursor: null });
}

/** Go to the previous or next anomaly of the filter or, on the page that compares runs, to the next function. */
function neighbour(way: number): void {
  if (view.value.page === 'compare') return nextFunction(way);
  if (view.value.page === 'incident' || (view.value.page === 'overview' && overview.list.value === 'incidents')) return nextIncident(way);
  const next = nextAnomaly(way);
  if (next !== null) go({ call: next, page: view.value.page === 'overview' ? 'calls' : view.value.page });
}

/** Go to the previous or next incident in the order of cost, among those that the overview lists. */
function nextIncident(way: number): void {
  const ids = (overview.incidents.value.value?.incidents ?? []).map((one) => one.id);
  const at = view.value.page === 'incident' ? ids.indexOf(view.value.incident ?? '') : -1;
  const next = ids[at < 0 ? 0 : at + way];
  if (next !== undefined) go({ page: 'incident', incident: next, call: null });
}

function nextFunction(way: number): void {
  const rows = comparison.value.value?.comparison.functions ?? [];
  const at = Math.max(
    0,
    rows.findIndex((row) => row.name === view.value.function),
  );
  const next = rows[at + way];
  if (next) go({ function: next.name }, 'replace');
}

function twins(): void {
  const own = document.activeElement?.closest<HTMLElement>('[data-twin]');
  const panels = own ? [own] : [...document.querySelectorAll<HTMLElement>('[data-twin]')];
  toggleTables(panels.map((panel) => panel.dataset['panel'] as string));
}

function otherClock(): void {
  setWallTimes(!wallTimes.value);
  say(wallTimes.value ? 'Times are shown as time of day, UTC.' : "Times are shown since the run's start.");
}
