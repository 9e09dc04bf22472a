/** The runs of a folder: asked for again and again while somebody looks, and what of them is shown, which is in the address. */

import { computed, effect, signal } from '@preact/signals';
import { get, Refused } from '../shared/api/http';
import { whyRefused } from '../shared/session/model/status';
import { comparisonOf, found, toggled } from '../shared/names/runs';
import type { RunsAnswer } from '../shared/api/types';

/** While one goes on, and while none does. */
const LIVE_MS = 2000;
const STILL_MS = 5000;

/** A run that was asked for and is not here. */
export const missing = document.querySelector('base')?.dataset['missing'] ?? '';
/** Why the list is shown at an address that is none of a page; '' where it is at its own. */
export const lost = document.querySelector('base')?.dataset['lost'] === undefined ? '' : location.pathname;
export const answer = signal<RunsAnswer | null>(null);
/** Why the list is not new; '' where it is. */
export const trouble = signal('');

const given = new URLSearchParams(location.search);
export const text = signal(given.get('find') ?? '');
export const ticked = signal<readonly string[]>((given.get('ticked') ?? '').split(',').filter(Boolean).map(decodeURIComponent).slice(0, 2));

export const shown = computed(() => found(answer.value?.runs ?? [], text.value));
/** Address of the comparison of those that are ticked; '' where they are not two. */
export const comparison = computed(() => comparisonOf(answer.value?.runs ?? [], ticked.value));

export const pageOf = (address: string): string => new URL(`r/${encodeURIComponent(address)}`, document.baseURI).href;
export const tick = (folder: string): void => void (ticked.value = toggled(ticked.value, folder));

/** Begin to ask. */
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
        : 'The server does not answer, retrying. Is the SSH tunnel open, and the server running?';
  }
  const isLive = answer.value?.runs.some((run) => run.state === 'running') ?? true;
  if (!document.hidden) next = setTimeout(() => void ask(), isLive ? LIVE_MS : STILL_MS);
}
