import { useEffect } from 'preact/hooks';
import { end, grid } from './heatmap/grid';
import { headline } from './headline';
import { list, ranking } from './overview';
import { run } from '../shared/session/session';
import { isSettling } from '../shared/session/settling';
import { Empty } from '../shared/parts/panel';
import { Answer } from '../shared/parts/sentence';
import { BudgetBar } from './budgetbar';
import { CallsList } from './callslist';
import { Functions } from './functions';
import { FindingsList } from './findingslist';
import { HeatMap } from './heatmap/heatmap';
import { Ranks } from './ranks';
import { Steps } from './steps/steps';

/** Mark of the moment when the page first shows something useful. */
const USEFUL = 'first-useful-paint';

/** Number of rows up to which the heat map takes no more room than they need. */
const FEW_ROWS = 8;

/** Most rows that the heat map of a run with next to no steps takes room for. */
const MOST_ROWS = 12;

/** Number of steps below which a chart over steps says next to nothing. */
const FEW_STEPS = 3;

/** Overview of the whole run: where and when time was lost. */
export function Overview() {
  const known = run.value.value;
  const isFew = grid.value !== null && grid.value.rows <= FEW_ROWS;
  const isQuiet = isFew && known !== null && known.status.state === 'ended' && known.answer.anomalies === 0;
  const isBrief = known !== null && known.status.state === 'ended' && end.value < FEW_STEPS;
  const isUseful = !isSettling.value && grid.value !== null && ranking.value.value !== null;
  useEffect(() => {
    if (!isUseful || performance.getEntriesByName(USEFUL).length > 0) return;
    // Charts measure their size in one frame, and paint in the next.
    requestAnimationFrame(() => requestAnimationFrame(() => performance.mark(USEFUL)));
  }, [isUseful]);
  return (
    <main class="overview">
      <Answer text={headline.value} />
      <BudgetBar />
      {known === null && run.error.value !== null ? (
        <Empty>Nothing can be shown until the server answers.</Empty>
      ) : (
        <div
          class="overview-panels"
          style={{ '--map-rows': Math.min(MOST_ROWS, grid.value?.rows ?? 0) }}
          data-few={isFew ? 'yes' : undefined}
          data-brief={isBrief ? 'yes' : undefined}
          data-quiet={isQuiet ? 'yes' : undefined}
        >
          <HeatMap />
          {list.value === 'incidents' ? <FindingsList /> : <CallsList />}
          <Ranks />
          <Functions />
          <Steps />
        </div>
      )}
    </main>
  );
}
