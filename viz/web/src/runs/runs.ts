/** Data of the page of runs: the runs of a folder, which are read repeatedly while the page is visible, and the filter and selection, which are in the address. */

import { computed, effect, signal } from '@preact/signals';
import { get, Refused } from '../shared/api/http';
import { whyRefused } from '../shared/session/model/status';
import { comparisonOf, found, toggled } from '../shared/names/runs';
import type { RunsAnswer } from '../shared/api/types';

/** Time between two readings, while a run goes on and while none does. */
const LIVE_MS = 2000;
const STILL_MS = 5000;

/** Run that was requested but is not in the folder; empty if there is none. */
export const missing = document.querySelector('base')?.dataset['missing'] ?? '';
/** Address without a page at which the list is shown instead; empty at the list's own address. */
export const lost = document.querySelector('base')?.dataset['lost'] === undefined ? '' : location.pathname;
export const answer = signal<RunsAnswer | null>(null);
/** Reason why the list is out of date; empty where it is not. */
export const trouble = signal('');

const given = new URLSearchParams(location.search);
export const text = signal(given.get('find') ?? '');
export const ticked = signal<readonly string[]>((given.get('ticked') ?? '').split(',').filter(Boolean).map(decodeURIComponent).slice(0, 2));

export const shown = computed(() => found(answer.value?.runs ?? [], text.value));
/** Address of the comparison of the ticked runs; empty unless two are ticked. */
export const comparison = computed(() => comparisonOf(answer.value?.runs ?? [], ticked.value));

export const pageOf = (address: string): string => new URL(`r/${encodeURIComponent(address)}`, document.baseURI).href;
export const tick = (folder: string): void => void (ticked.value = toggled(ticked.value, folder));

/** Begin to read the runs. */
export function start(): void {
  document.addEventListener('visibilitychange', () => !document.hidden && void ask());
  void ask();
}

effect(() => {
  const query = new URLSearchParams();
  if (text.value !== '') query.set('find', text.value);
  if (ticked.value.length > 0) query.set('ticked', ticked.value.map(encodeURIComponent).join(','));
  history.replaceState(null, '', location.pathname + (query.size > 0 ? `?${query}` : ''));
});

let next: ReturnType<typeof setTimeout> | undefined;

async function ask(): Promise<void> {
  clearTimeout(next);
  try {
    answer.value = await get<RunsAnswer>('runs', [], new AbortController().signal);
    trouble.value = '';
  } catch (error) {
    trouble.value =
      error instanceof Refused
        ? whyRefused(error.status, error.message)
        : 'The server does not answer; retrying. Is the SSH tunnel open, and is the server running?';
  }
  const isLive = answer.value?.runs.some((run) => run.state === 'running') ?? true;
  if (!document.hidden) next = setTimeout(() => void ask(), isLive ? LIVE_MS : STILL_MS);
}
