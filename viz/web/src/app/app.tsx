import { useEffect } from 'preact/hooks';
import { foldersOf, sideText } from '../shared/address/model/trail';
import type { PageName, View } from '../shared/address/model/view';
import { view } from '../shared/address/address';
import { hideTip } from '../shared/session/page';
import { paused } from '../shared/session/session';
import { isSettling } from '../shared/session/settling';
import { Announcer } from './announcer';
import { Crumbs } from './crumbs';
import { Help } from './help';
import { isLost, Lost } from './lost';
import { OpenPage } from './pages';
import { StatusBar } from './statusbar';
import { TipLayer } from './tip';
import { plural } from '../shared/units/units';
import { Exports } from '../exports/dialog';

/** Pages that are as high as the window, and whose panels scroll. */
const FITTED: readonly PageName[] = ['overview', 'calls', 'timeline', 'flame'];

export function App() {
  const { page, call, incident, node, compare, also } = view.value;
  const title = titleOf(view.value);
  useEffect(() => {
    hideTip();
    document.title = `${title} · Chimbuko`;
  }, [title]);
  useEffect(() => scrollTo(0, 0), [page, page === 'call' ? call : page === 'incident' ? incident : page === 'node' ? node : null, compare, also]);
  return (
    <div
      class={FITTED.includes(page) ? 'page fitted' : 'page'}
      data-page={page}
      data-paused={paused.value}
      data-settling={isSettling.value ? 'yes' : undefined}
    >
      {page !== 'wall' && <StatusBar />}
      {isLost(view.value) ? (
        <Lost />
      ) : (
        <>
          {page !== 'wall' && <Crumbs />}
          <OpenPage />
        </>
      )}
      <TipLayer />
      <Announcer />
      <Help />
      <Exports />
    </div>
  );
}

function titleOf({ run, page, call, incident, node, compare, also }: View): string {
  if (page === 'call') return `${call} · ${run}`;
  if (page === 'incident') return `${incident} · ${run}`;
  if (page === 'node' && node !== '') return `${node} · ${run}`;
  if (isLost(view.value)) return 'No such page';
  return page === 'compare' ? `${sideText(compare) || '?'} → ${also === '' ? run : plural(1 + foldersOf(also).length, 'run')}` : run;
}
