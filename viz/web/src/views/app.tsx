import { useEffect } from 'preact/hooks';
import { overviewAnswer } from '../lib/answer';
import { view } from '../state/address';
import { hideTip } from '../state/page';
import { paused, run } from '../state/session';
import { Calls } from './calls';
import { Compare } from './compare';
import { Crumbs } from './crumbs';
import { Detail } from './detail';
import { Functions } from './functions';
import { Help } from './help';
import { Empty } from './panel';
import { Ranks } from './ranks';
import { StatusBar } from './statusbar';
import { Steps } from './steps';
import { TipLayer } from './tip';

export function App() {
  const { call, compare, run: name } = view.value;
  useEffect(() => {
    hideTip();
    const what = call ?? (compare === null ? null : `${compare || '?'} → ${name}`);
    document.title = what === null ? `${name} · Chimbuko` : compare === null ? `${what} · ${name} · Chimbuko` : `${what} · Chimbuko`;
    if (what !== null) scrollTo(0, 0);
  }, [call, compare, name]);
  const isOverview = call === null && compare === null;
  return (
    <div class={isOverview ? 'page fitted' : 'page'} data-paused={paused.value}>
      <StatusBar />
      <Crumbs />
      {compare !== null ? <Compare /> : call === null ? <Overview /> : <Detail />}
      <TipLayer />
      <Help />
    </div>
  );
}

function Overview() {
  const known = run.value.value;
  const sentence = known === null ? (run.error.value ?? ' ') : overviewAnswer(known);
  return (
    <main class="overview">
      <h1 class="answer" data-answer>
        {sentence}
      </h1>
      {known === null && run.error.value !== null ? (
        <Empty>Nothing can be shown until the server answers.</Empty>
      ) : (
        <>
          <div class="row">
            <Ranks />
            <Steps />
            <Functions />
          </div>
          <Calls />
        </>
      )}
    </main>
  );
}
