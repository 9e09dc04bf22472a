import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import type { PageName, View } from '../lib/view';
import { view } from '../state/address';
import { hideTip } from '../state/page';
import { paused } from '../state/session';
import { Detail } from './call/detail';
import { CallsPage } from './calls/page';
import { Compare } from './compare/compare';
import { Announcer } from './frame/announcer';
import { Crumbs } from './frame/crumbs';
import { FunctionPage } from './function/function';
import { Help } from './frame/help';
import { StatusBar } from './frame/statusbar';
import { TipLayer } from './frame/tip';
import { Health } from './health/health';
import { Overview } from './overview/overview';
import { TimelinePage } from './timeline/page';
import { Exports } from './parts/exports';

const PAGES: Partial<Record<PageName, ComponentType>> = {
  overview: Overview,
  calls: CallsPage,
  timeline: TimelinePage,
  call: Detail,
  function: FunctionPage,
  compare: Compare,
  health: Health,
};

/** Pages that fill the window and scroll inside. */
const FITTED: readonly PageName[] = ['overview', 'calls', 'timeline'];

export function App() {
  const { page, call, compare } = view.value;
  const title = titleOf(view.value);
  useEffect(() => {
    hideTip();
    document.title = `${title} · Chimbuko`;
  }, [title]);
  useEffect(() => scrollTo(0, 0), [page, page === 'call' ? call : null, compare]);
  const Page = PAGES[page] ?? Overview;
  return (
    <div class={FITTED.includes(page) ? 'page fitted' : 'page'} data-page={page} data-paused={paused.value}>
      <StatusBar />
      <Crumbs />
      <Page />
      <TipLayer />
      <Announcer />
      <Help />
      <Exports />
    </div>
  );
}

function titleOf({ run, page, call, compare }: View): string {
  if (page === 'call') return `${call} · ${run}`;
  return page === 'compare' ? `${compare || '?'} → ${run}` : run;
}
