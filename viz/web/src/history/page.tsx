import { CourseChart } from './coursechart';
import { answer, historyRequest } from './history';
import { historyAnswer, ordered, sidesOf, valueText } from './model/course';
import { mount } from '../shared/api/http';
import { addressOf, follow, go } from '../shared/address/address';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { percent, plural, wallClock } from '../shared/units/units';
import type { HistoryAnswer, SeriesChange, SeriesHistory } from '../shared/api/types';
import { Answer } from '../shared/parts/sentence';

/** Page of the runs of the same series: what changed, when, and how sure that is. */
export function HistoryPage() {
  const found = answer.value.value;
  return (
    <main class="history">
      <Answer text={found === null ? '' : found.history == null ? 'There is no history of this run.' : historyAnswer(found.history)} />
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
                  if (change !== undefined) comparing(found, change)?.go();
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

/** Address of the comparison around a change, and the way there; a run of its own has another page. */
function comparing(found: HistoryAnswer, change: SeriesChange): { href: string; go: (event?: MouseEvent) => void } | null {
  const sides = sidesOf(found, change);
  if (sides === null || (sides.run !== undefined && mount === '')) return null;
  const view = { page: 'compare', call: null, ...sides } as const;
  const href = addressOf(view);
  if (sides.run !== undefined) return { href, go: (event) => event ?? location.assign(href) };
  return { href, go: (event) => (event === undefined ? go(view) : follow(event, view)) };
}

function ChangesPanel({ found, changes }: { found: HistoryAnswer; changes: readonly SeriesChange[] }) {
  return (
    <Panel name="series-changes" title="Changes" summary={plural(changes.length, 'change')} asks={{ json: historyRequest }}>
      <p class="unit">{found.history?.title}. Below, a dot is a run: ○ left out, ◉ this one. Dashed: a change, to which a click leads; ▮ another version.</p>
      {changes.length === 0 ? (
        <Empty>A change is told when the runs since lie further from those before than the noise of the series explains.</Empty>
      ) : (
        <ul>
          {[...changes].reverse().map((change) => {
            const compared = comparing(found, change);
            return (
              <li key={change.at} data-change={change.at}>
                <span class={change.is_slower ? 'abnormal' : 'sign faster'}>{change.is_slower ? '▲' : '▼'}</span> {change.sentence}{' '}
                {compared !== null && (
                  <a href={compared.href} onClick={compared.go}>
                    Compare before and after
                  </a>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
  );
}

function NodesPanel({ history }: { history: SeriesHistory }) {
  const isTroubled = history.nodes.some((one) => Object.keys(one.troubles).length > 0);
  return (
    <Panel name="slow-nodes" title="Nodes that are slow again and again" summary={plural(history.nodes.length, 'node')} asks={{ json: historyRequest }}>
      <Table
        columns={[
          { heading: 'node' },
          { heading: 'function' },
          { heading: 'slower in', isNumber: true },
          { heading: 'by', isNumber: true },
          ...(isTroubled ? [{ heading: 'incidents there' }] : []),
        ]}
        rows={history.nodes.map((one) => [
          one.node,
          one.function,
          `${one.slower} of ${plural(one.runs, 'run')}`,
          percent(one.share),
          ...(isTroubled
            ? [
                Object.entries(one.troubles)
                  .map(([cause, runs]) => `${cause} in ${plural(runs, 'run')}`)
                  .join(', '),
              ]
            : []),
        ])}
      />
    </Panel>
  );
}
