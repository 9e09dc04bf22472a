import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import type { PageName, View } from '../shared/address/model/view';
import { view } from '../shared/address/address';
import { hideTip } from '../shared/session/page';
import { paused } from '../shared/session/session';
import { Detail } from '../call/page';
import { CallsPage } from '../calls/page';
import { Compare } from '../compare/page';
import { Announcer } from './announcer';
import { Crumbs } from './crumbs';
import { FunctionPage } from '../function/page';
import { Help } from './help';
import { StatusBar } from './statusbar';
import { TipLayer } from './tip';
import { Health } from '../health/page';
import { Overview } from '../overview/page';
import { TimelinePage } from '../timeline/page';
import { Exports } from '../exports/dialog';

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
