import { CourseChart } from './coursechart';
import { answer, historyRequest } from './history';
import { historyAnswer, ordered, sidesOf, valueText } from './model/course';
import { go } from '../shared/address/address';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { percent, plural, wallClock } from '../shared/units/units';
import type { HistoryAnswer, SeriesChange, SeriesHistory } from '../shared/api/types';

/** Page of the runs of the same series: what changed, when, and how sure that is. */
export function HistoryPage() {
  const found = answer.value.value;
  return (
    <main class="history">
      <h1 class="answer" data-answer>
        {found === null ? ' ' : found.history == null ? 'There is no history of this run.' : historyAnswer(found.history)}
      </h1>
      {answer.error.value !== null ? (
        <Empty>{answer.error.value}</Empty>
      ) : found === null ? (
        <Reading what="the runs of the series" />
      ) : found.history == null ? (
        <Empty>{found.why}.</Empty>
      ) : (
        <div class="history-panels">
          <ChangesPanel found={found} changes={found.history.changes} />
          {found.history.nodes.length > 0 && <NodesPanel history={found.history} />}
          {ordered(found.history).map((quantity) => (
            <Panel
              key={quantity.name}
              name="course"
              title={quantity.label}
              summary={`${quantity.label} in ${plural(found.history?.runs.length ?? 0, 'run')}.`}
              asks={{ json: historyRequest }}
              table={() => (
                <Table
                  columns={[{ heading: 'run' }, { heading: 'began' }, { heading: quantity.label, isNumber: true }]}
                  rows={(found.history?.runs ?? []).map((run, at) => [
                    run.name,
                    wallClock(run.started_us).slice(0, 16),
                    valueText(quantity, quantity.values[at]),
                  ])}
                />
              )}
            >
              <CourseChart
                history={found.history as SeriesHistory}
                quantity={quantity}
                own={found.this}
                open={(at) => {
                  const change = nearest(found.history as SeriesHistory, at);
                  if (change !== undefined) compareAround(found, change);
                }}
              />
            </Panel>
          ))}
        </div>
      )}
    </main>
  );
}

/** The last change up to a run. */
const nearest = (history: SeriesHistory, at: number): SeriesChange | undefined =>
  history.changes.filter((change) => change.at <= at).at(-1) ?? history.changes[0];

function compareAround(found: HistoryAnswer, change: SeriesChange): void {
  const sides = sidesOf(found, change);
  if (sides !== null) go({ page: 'compare', call: null, ...sides });
}

function ChangesPanel({ found, changes }: { found: HistoryAnswer; changes: readonly SeriesChange[] }) {
  return (
    <Panel name="series-changes" title="Changes" summary={plural(changes.length, 'change')} asks={{ json: historyRequest }}>
      <p class="unit">{found.history?.title}</p>
      {changes.length === 0 ? (
        <Empty>A change is told when the runs since lie further from those before than the noise of the series explains.</Empty>
      ) : (
        <ul>
          {[...changes].reverse().map((change) => (
            <li key={change.at} data-change={change.at}>
              <span class={change.is_slower ? 'abnormal' : undefined}>{change.is_slower ? '▲' : '▼'}</span> {change.sentence}{' '}
              {sidesOf(found, change) !== null && <button onClick={() => compareAround(found, change)}>Compare before and after</button>}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function NodesPanel({ history }: { history: SeriesHistory }) {
  return (
    <Panel name="slow-nodes" title="Nodes that are slow again and again" summary={plural(history.nodes.length, 'node')} asks={{ json: historyRequest }}>
      <Table
        columns={[
          { heading: 'node' },
          { heading: 'function' },
          { heading: 'slower in', isNumber: true },
          { heading: 'by', isNumber: true },
          { heading: 'incidents there' },
        ]}
        rows={history.nodes.map((one) => [
          one.node,
          one.function,
          `${one.slower} of ${plural(one.runs, 'run')}`,
          percent(one.share),
          Object.entries(one.troubles)
            .map(([cause, runs]) => `${cause} in ${plural(runs, 'run')}`)
            .join(', '),
        ])}
      />
    </Panel>
  );
}
