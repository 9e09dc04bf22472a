/** The address of the page, which holds the whole state of the view. */

import { computed, signal } from '@preact/signals';
import { isReport } from '../api/report';
import { formatView, parseView, type View } from './model/view';

/** Root of all addresses; a report, which is one file, has its view after the `#`. */
const root = isReport ? '#' : new URL(document.baseURI).pathname;
const home = document.querySelector<HTMLElement>('#report')?.dataset['home'] ?? '';

function fromLocation(): View {
  if (isReport) {
    const [path = '', query = ''] = (location.hash.slice(1) || home).split(/\?(.*)/s);
    return parseView(path, query);
  }
  return parseView(location.pathname.slice(root.length), location.search.slice(1));
}

const current = signal<View>(fromLocation());

/** View of the current address. */
export const view = computed(() => current.value);

export function addressOf(change: Partial<View>): string {
  return root + formatView({ ...current.value, ...change });
}

/** Change the view. A click adds an entry to the browser's history; panning and typing replace the last one. */
export function go(change: Partial<View>, how: 'push' | 'replace' = 'push'): void {
  const next = { ...current.value, ...change };
  const address = root + formatView(next);
  if (address === (isReport ? location.hash : location.pathname + location.search)) return;
  if (how === 'push') history.pushState(null, '', address);
  else history.replaceState(null, '', address);
  current.value = next;
}

/** Follow a link inside the page, unless the click opens another tab. */
export function follow(event: MouseEvent, change: Partial<View>): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(change);
}

window.addEventListener('popstate', () => {
  current.value = fromLocation();
});
