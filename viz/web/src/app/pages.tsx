/** The pages. The overview and its view for a wall are part of the main bundle; the others are loaded when they are opened, or a little later. */

import type { ComponentType } from 'preact';
import { effect, signal } from '@preact/signals';
import { Overview } from '../overview/page';
import { Wall } from '../overview/wall';
import { view } from '../shared/address/address';
import { settlePages } from '../shared/session/settling';
import type { PageName } from '../shared/address/model/view';
import { Empty } from '../shared/parts/panel';

type Others = Exclude<PageName, 'overview' | 'wall'>;

const OTHERS: Record<Others, () => Promise<ComponentType>> = {
  calls: async () => (await import('../calls/page')).CallsPage,
  timeline: async () => (await import('../timeline/page')).TimelinePage,
  flame: async () => (await import('../flame/page')).FlamePage,
  call: async () => (await import('../call/page')).Detail,
  incident: async () => (await import('../incident/page')).IncidentPage,
  function: async () => (await import('../function/page')).FunctionPage,
  compare: async () => (await import('../compare/page')).Compare,
  node: async () => (await import('../node/page')).NodePage,
  workflow: async () => (await import('../workflow/page')).WorkflowPage,
  history: async () => (await import('../history/page')).HistoryPage,
  health: async () => (await import('../health/page')).Health,
};

/** Delay before the other pages are loaded: the first page has the connection to itself, and the server of a short run is still there. */
const FETCH_AFTER_MS = 3000;

const pages = signal<Partial<Record<PageName, ComponentType>>>({ overview: Overview, wall: Wall });

/** The page that is open; nothing until it is loaded. */
export function OpenPage() {
  const Page = pages.value[view.value.page];
  return Page === undefined ? null : <Page />;
}

async function fetchPage(name: Others): Promise<void> {
  if (pages.peek()[name] !== undefined && pages.peek()[name] !== Gone) return;
  const page = await OTHERS[name]().catch(() => Gone);
  pages.value = { ...pages.peek(), [name]: page };
}

function Gone() {
  return <Empty>This page could not be loaded, because the server does not answer. Reload it when the server is back.</Empty>;
}

/** Load the page that is opened now, and the others after a while. */
export function fetchPages(): void {
  settlePages(() => (pages.value[view.value.page] === undefined ? null : view.value.page));
  effect(() => {
    const { page } = view.value;
    if (page !== 'overview' && page !== 'wall') void fetchPage(page);
  });
  setTimeout(() => {
    for (const name of Object.keys(OTHERS) as Others[]) void fetchPage(name);
  }, FETCH_AFTER_MS);
}
