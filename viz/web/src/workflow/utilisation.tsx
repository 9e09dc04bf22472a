import { startsOn } from './model/tasks';
import { momentsOf, pathOf, valueAt, type Curve } from '../shared/charts/model/curves';
import { digits, sinceStart, wallClock } from '../shared/units/units';
import { workflowRequest } from '../shared/api/workflowrequests';
import { published, span_us, start_us } from './workflow';
import { MarkChart } from '../shared/charts/markchart';
import { useSize } from '../shared/charts/size';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { cut, LEFT, RIGHT, TimeTicks } from './tasks';
import type { NodeView, TaskView } from '../shared/api/types';

const STRIP_PX = 44;
const LINE_PX = 32;
const AXIS_PX = 20;
const MOST_MOMENTS = 300;
const MOST_NAMED = 8;

/** Utilisation of each node's cores over time, with the starts of tasks. */
export function UtilisationPanel() {
  const known = published.value.value;
  const nodes = known?.nodes ?? [];
  const span = span_us.value;
  const left = (known?.nodes_total ?? 0) - nodes.length;
  return (
    <Panel
      name="utilisation"
      title="CPU utilisation of nodes"
      summary={nodes.length === 0 ? 'Not known.' : nodes.map((node) => `${node.node} ${percent(last(node))} at last`).join(', ')}
      actions={nodes.length > 0 && <span class="unit">{`of all cores, 0 to 100 % · ◦ a task begins${left > 0 ? ` · ${left} more nodes` : ''}`}</span>}
      asks={{ json: workflowRequest }}
      table={nodes.length === 0 ? undefined : () => <UtilisationTable nodes={nodes} />}
    >
      {nodes.length === 0 || span === null ? (
        <Empty>
          No node has published its utilisation. <code>[monitor]</code> in a workflow, or <code>chimbuko monitor --publish</code> on each node, publishes it.
        </Empty>
      ) : (
        <Chart nodes={nodes} tasks={known?.tasks ?? []} span={span} />
      )}
    </Panel>
  );
}

function Chart({ nodes, tasks, span: [first, end] }: { nodes: readonly NodeView[]; tasks: readonly TaskView[]; span: readonly [number, number] }) {
  const { element, width } = useSize<HTMLDivElement>();
  const x = (time_us: number): number => LEFT + ((time_us - first) / (end - first)) * (width - LEFT - RIGHT);
  const curves = nodes.map((node): Curve => ({ name: node.node, times_us: node.times_us, values: node.utilisation_percent }));
  const marks = momentsOf(curves, MOST_MOMENTS).map((time_us) => ({ x: x(time_us), lines: tip(curves, time_us) }));
  const height = nodes.length * STRIP_PX;
  return (
    <div ref={element} class="utilisation-chart">
      {width > 0 && (
        <MarkChart kind="line chart" label="CPU utilisation of each node over time" width={width} height={height + AXIS_PX} marks={marks}>
          {curves.map((curve, row) => {
            const foot = row * STRIP_PX + STRIP_PX - 3;
            const y = (value: number): number => foot - (LINE_PX * value) / 100;
            return (
              <g key={curve.name} data-node={curve.name}>
                <text class="row-name" x={LEFT - 8} y={foot - LINE_PX / 2 + 4} text-anchor="end">
                  {cut(curve.name, 20)}
                </text>
                <line class="base faint" x1={LEFT} x2={width} y1={foot - LINE_PX} y2={foot - LINE_PX} />
                <line class="base" x1={LEFT} x2={width} y1={foot} y2={foot} />
                <path class="curve" d={pathOf(curve, x, y)} />
                {startsOn(curve.name, tasks).map(({ time_us, name }, at) => (
                  <circle key={at} class="task-start" cx={x(time_us)} cy={foot} r={3} data-start={name} />
                ))}
              </g>
            );
          })}
          <TimeTicks first={first} last={end} x={x} width={width} y={height + 15} />
        </MarkChart>
      )}
    </div>
  );
}

const last = (node: NodeView): number | null | undefined => node.utilisation_percent[node.utilisation_percent.length - 1];

const percent = (value: number | null | undefined): string => (value == null ? 'unknown' : `${digits(value)} %`);

function tip(curves: readonly Curve[], time_us: number): string[] {
  const known = curves.map((curve) => `${curve.name}: ${percent(valueAt(curve, time_us))}`);
  const more = known.length > MOST_NAMED ? [`and ${known.length - MOST_NAMED} more`] : [];
  return [...known.slice(0, MOST_NAMED), ...more, `${sinceStart(time_us - start_us.value)} (${wallClock(time_us)})`];
}

function UtilisationTable({ nodes }: { nodes: readonly NodeView[] }) {
  const rows = nodes.map(({ node, utilisation_percent: all }) => {
    const known = all.filter((value): value is number => value !== null);
    const [sum, most] = [known.reduce((total, value) => total + value, 0), known.reduce((highest, value) => Math.max(highest, value), 0)];
    return [node, String(known.length), percent(known.length === 0 ? null : sum / known.length), percent(most), percent(all[all.length - 1])];
  });
  const columns = ['samples', 'mean', 'maximum', 'last'].map((heading) => ({ heading, isNumber: true }));
  return <Table columns={[{ heading: 'node' }, ...columns]} rows={rows} />;
}
