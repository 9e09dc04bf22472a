import { digits, duration, exact, plural } from '../shared/units/units';
import { placement } from './health';
import { whereText } from './model/placement';
import { Agreement, Split } from './placementcharts';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { AdvisedNode } from '../shared/api/types';

const PLACES = [
  { heading: 'analysis runs' },
  { heading: 'step takes', isNumber: true },
  { heading: 'added, %', isNumber: true },
  { heading: 'busy, %', isNumber: true },
];

const INTERVALS = [
  { heading: 'interval' },
  { heading: 'events/s', isNumber: true },
  { heading: 'measured', isNumber: true },
  { heading: 'predicted', isNumber: true },
];

/** Predicted cost of each placement of the analysis, beside what was measured. */
export function WhereItRuns() {
  const nodes = placement.value.value?.nodes ?? [];
  const summary = nodes.length === 0 ? 'Not known yet.' : `Best ${nodes.map(settings).join('; ')}.`;
  return (
    <Panel name="placement" title="Where the analysis runs best" summary={summary} asks={{ json: ['placement', []] }}>
      {nodes.length === 0 ? (
        <Empty>Known once agents have reported the cost of some steps, every ten seconds, of a program that goes on; of a recorded trace it is not.</Empty>
      ) : (
        nodes.map((node) => <Node key={node.node} {...node} />)
      )}
    </Panel>
  );
}

function settings({ node, agents, cores, period_us, transport }: AdvisedNode): string {
  const place = cores === '' ? 'on all cores' : `--cores ${cores}`;
  return `on ${node}: --agents ${agents} --period ${digits(period_us / 1e6)} --transport ${transport} ${place}`;
}

function Node({ node, streams, step_us, analysis_us, placements, intervals }: AdvisedNode) {
  return (
    <details>
      <summary>{`${node}: analysing a step of ${duration(step_us)} of ${plural(streams, 'stream')} takes ${duration(analysis_us)} of CPU time`}</summary>
      <Table
        columns={PLACES}
        rows={placements.map((one) => [
          <span class={one.keeps_up ? undefined : 'warn'}>{`${whereText(one)}${one.keeps_up ? '' : ': falls behind'}`}</span>,
          duration(one.step_us),
          digits(100 * one.added_share),
          digits(100 * one.busy_share),
        ])}
      />
      <Split placements={placements} />
      <h3>CPU time of the agents per step, measured and as predicted from all other intervals</h3>
      <Agreement intervals={intervals} />
      <Table
        columns={INTERVALS}
        rows={intervals.map((one, at) => [String(at + 1), exact(Math.round(one.rows_per_s)), duration(one.measured_us), duration(one.predicted_us)])}
      />
    </details>
  );
}
