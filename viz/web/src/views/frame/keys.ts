/** Keys that work anywhere but in text fields. */

import { go, view } from '../../state/address';
import { helpOpen, hideTip } from '../../state/page';
import { calls } from '../../state/calls';
import { comparison } from '../../state/comparison';
import { togglePause } from '../../state/session';
import { copyCommand, copyLink } from './crumbs';
import { toggleTables } from '../parts/panel';

const ACTIONS: Record<string, () => void> = {
  '/': focusSearch,
  '?': () => (helpOpen.value = true),
  Escape: clear,
  ' ': togglePause,
  l: () => go({ zoom: null }),
  '[': () => neighbour(-1),
  ']': () => neighbour(1),
  u: () => go({ page: 'overview', call: null }),
  v: () => go({ page: 'compare', compare: '' }),
  c: copyLink,
  C: copyCommand,
  t: twins,
};

export function listenToKeys(): void {
  document.addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || helpOpen.value) return;
    if (target.matches('input, select, textarea')) {
      if (event.key === 'Escape') target.blur();
      return;
    }
    if (event.key === ' ' && target.matches('button, a')) return;
    const action = ACTIONS[event.key] ?? ACTIONS[event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

function focusSearch(): void {
  if (view.value.page !== 'calls') go({ page: 'calls', call: null });
  requestAnimationFrame(() => document.querySelector<HTMLInputElement>('[data-search]')?.select());
}

function clear(): void {
  hideTip();
  if (view.value.steps !== null) go({ steps: null, cursor: null });
}

/** The call before or after this one in the table; where runs are compared, the function. */
function neighbour(way: number): void {
  if (view.value.page === 'compare') return nextFunction(way);
  const rows = calls.value.value?.calls ?? [];
  const at = rows.findIndex((row) => row.id === view.value.call);
  const next = rows[at < 0 ? 0 : at + way];
  if (next) go({ page: 'call', call: next.id });
}

function nextFunction(way: number): void {
  const rows = comparison.value.value?.comparison.functions ?? [];
  const at = Math.max(0, rows.findIndex((row) => row.name === view.value.function));
  const next = rows[at + way];
  if (next) go({ function: next.name }, 'replace');
}

function twins(): void {
  const own = document.activeElement?.closest<HTMLElement>('[data-twin]');
  const panels = own ? [own] : [...document.querySelectorAll<HTMLElement>('[data-twin]')];
  toggleTables(panels.map((panel) => panel.dataset['panel'] as string));
}
