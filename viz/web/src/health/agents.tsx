import { namesText, together } from './model/health';
import { shorten } from '../shared/names/names';
import { digits, duration, exact, plural, ratio } from '../shared/units/units';
import { addressOf, follow } from '../shared/address/address';
import { vitals } from './health';
import { NodeLink } from '../shared/parts/nodelink';
import { Empty, Panel, useHeld } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { Agent } from '../shared/api/types';

const AGENT_COLUMNS = [
  { heading: 'node' },
  { heading: 'last heard' },
  { heading: 'streams', isNumber: true },
  { heading: 'lag, s', isNumber: true },
  { heading: 'memory, MB', isNumber: true },
  { heading: 'CPU, s', isNumber: true },
  { heading: 'spool, kB', isNumber: true },
];

/** Agents, those that lag most first. */
export function Agents() {
  const known = vitals.value.value;
  const held = useHeld(known?.agents ?? [], (rows) => rows.map((row) => row.name).join());
  const total = known?.agents_total ?? 0;
  const shown = total > held.shown.length ? `${held.shown.length} of ${exact(total)} agents, those that lag most first.` : `${plural(total, 'agent')}.`;
  return (
    <Panel name="agents" title="Agents" summary={shown} hold={held.handlers} asks={{ json: ['vitals', []] }}>
      {held.shown.length === 0 ? (
        <Empty>No agent has reported yet: agents report every ten seconds during the run, and at its end.</Empty>
      ) : (
        <Table columns={AGENT_COLUMNS} rows={together(held.shown, told).map(agentCells)} />
      )}
    </Panel>
  );
}

/** What is told of an agent, beside its node. */
function told(agent: Agent): string[] {
  return [
    agent.age_s === null ? 'at the end' : `${Math.round(agent.age_s)} s ago${agent.is_silent ? ': silent' : ''}`,
    exact(agent.streams),
    digits(agent.lag_s),
    digits(agent.pss_bytes / 1e6),
    digits(agent.cpu_s),
    digits(agent.spool_bytes / 1e3),
  ];
}

function agentCells(agents: Agent[]) {
  const [first] = agents as [Agent];
  const [heard, ...numbers] = told(first);
  const nodes = [...new Set(agents.map((agent) => agent.node))];
  return [
    <span title={agents.map((agent) => agent.name).join(', ')}>{nodes.length === 1 ? <NodeLink name={first.node} /> : namesText(nodes, 'node')}</span>,
    <span class={first.is_silent ? 'warn' : undefined}>{heard}</span>,
    ...numbers,
  ];
}

const SLOW_COLUMNS = [
  { heading: 'rank' },
  { heading: 'node' },
  { heading: 'function' },
  { heading: 'takes', isNumber: true },
  { heading: 'lost so far', isNumber: true },
];

/** Ranks that are slower than the others all the time, without a single abnormal call. */
export function SlowRanks() {
  const rows = vitals.value.value?.slow_ranks ?? [];
  return (
    <Panel
      name="slow"
      title="Slow ranks"
      summary={rows.length === 0 ? 'No rank is slow all the time.' : `${plural(rows.length, 'rank')} and functions, most time lost first.`}
    >
      {rows.length === 0 ? (
        <Empty>No rank is slower than the others all the time. Ranks are compared every ten trace periods.</Empty>
      ) : (
        <Table
          columns={SLOW_COLUMNS}
          rows={rows.map((row) => {
            const key = `${row.program}:${row.rank}`;
            const calls = { page: 'calls', rank: key, steps: null, call: null, cursor: null } as const;
            return [
              <a href={addressOf(calls)} onClick={(event) => follow(event, calls)}>
                {key}
              </a>,
              <NodeLink name={row.node} />,
              <span title={row.function}>{row.function === '' ? 'all its computation' : shorten(row.function, 28).text}</span>,
              ratio(row.ratio),
              duration(row.lost_us),
            ];
          })}
        />
      )}
    </Panel>
  );
}
