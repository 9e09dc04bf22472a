import { nodesCommand } from '../shared/asking/commands';
import { useEffect } from 'preact/hooks';
import { nodeAnswer } from './model/parts';
import { percent, plural, sinceStart, wallClock } from '../shared/units/units';
import { nodeRequest, nodesRequest } from '../shared/api/noderequests';
import { addressOf, follow, go, view } from '../shared/address/address';
import { zero_us } from '../shared/session/session';
import { Listed } from '../shared/parts/listed';
import { NodeLink } from '../shared/parts/nodelink';
import { Empty, Reading } from '../shared/parts/panel';
import { Answer } from '../shared/parts/sentence';
import { charts, facts, nodes } from './node';
import { Built } from './built';
import { LanePanel } from './lanepanel';
import { Marked } from './marked';
import type { DatedFinding, NodeFacts, NodeRank } from '../shared/api/types';

/** Page of a node: findings, threads, cores and GPUs over time, its hardware, and its ranks. */
export function NodePage() {
  const { node } = view.value;
  return <main class="detail node-page">{node === '' ? <AllNodes /> : <OneNode key={node} name={node} />}</main>;
}

/** Open the page of the only node of a run, instead of a list with one line. */
function useOnlyNode(names: readonly string[]): void {
  const only = names.length === 1 ? names[0] : undefined;
  useEffect(() => {
    if (only !== undefined) go({ node: only }, 'replace');
  }, [only]);
}

function AllNodes() {
  const answer = nodes.value.value;
  useOnlyNode(answer?.nodes.map(({ name }) => name) ?? []);
  if (answer === null) return nodes.error.value === null ? <Reading what="nodes" /> : <Empty>{nodes.error.value}</Empty>;
  const rows = answer.nodes.map(({ name, begin_us, end_us }) => [
    <NodeLink name={name} />,
    sinceStart(begin_us - zero_us.value),
    sinceStart(end_us - zero_us.value),
  ]);
  return (
    <>
      <Answer text={answer.total === 0 ? 'No node was sampled.' : `${plural(answer.total, 'node')} ${answer.total === 1 ? 'was' : 'were'} sampled.`} />
      <Listed
        name="nodes"
        title="Nodes"
        columns={[
          ['node', false],
          ['from', true],
          ['to', true],
        ]}
        rows={rows}
        nothing="Nodes are sampled only in live runs, unless --no-node-samples turns it off. A recorded trace has no samples."
        asks={{ json: nodesRequest() }}
      />
    </>
  );
}

function OneNode({ name }: { name: string }) {
  const known = facts.value.value?.node;
  if (known === undefined) {
    if (facts.error.value === null) return <Reading what={`node ${name}`} />;
    return (
      <>
        <h1 class="answer">This node cannot be shown.</h1>
        <Empty command={nodesCommand}>{facts.error.value}. Nodes are sampled only in live runs, unless --no-node-samples turns it off.</Empty>
      </>
    );
  }
  const calls = { page: 'calls', node: name, label: 'anomaly', call: null, cursor: null } as const;
  return (
    <>
      <div class="headline">
        <Answer text={nodeAnswer(name, known)} />
        <a class="button" href={addressOf(calls)} onClick={(event) => follow(event, calls)}>
          Its abnormal calls
        </a>
      </div>
      <p class="place">{placeText(known)}</p>
      <div class="call-panels node-panels">
        <Findings found={known.findings} name={name} />
        {charts.map((one) => (
          <LanePanel key={one.chart.name} {...one} />
        ))}
        <Built parts={known.parts} ranks={known.ranks} name={name} />
        <Ranks ranks={known.ranks} name={name} />
        <Marked />
      </div>
    </>
  );
}

function placeText({ begin_us, end_us, memory_bytes, least_available_bytes, sample_us, left_out }: NodeFacts): string {
  const parts = [
    `sampled from ${sinceStart(begin_us - zero_us.value)} (${wallClock(begin_us)}) to ${sinceStart(end_us - zero_us.value)}`,
    memory_bytes > 0 && `at least ${percent(least_available_bytes / memory_bytes)} of the memory was free`,
    `sampling took ${percent(sample_us / Math.max(1, end_us - begin_us))} of a core`,
    left_out > 0 && `${plural(left_out, 'sample row')} left out`,
  ];
  return parts.filter((part) => part !== false).join(' · ');
}

const MOST_TIMES = 3;

/** Findings of the node monitor. */
function Findings({ found, name }: { found: readonly DatedFinding[]; name: string }) {
  const when = ({ times }: DatedFinding): string => {
    const shown = times.slice(0, MOST_TIMES).map((ends) => ends.map((time) => sinceStart(time - zero_us.value)).join(' to '));
    return [...shown, ...(times.length > MOST_TIMES ? [`${times.length - MOST_TIMES} more times`] : [])].join(', ');
  };
  return (
    <Listed
      name="node-findings"
      title="What was wrong"
      columns={[
        ['what', false],
        ['evidence, the last time', false],
        ['what to do', false],
        ['when', false],
      ]}
      rows={found.map((one) => [<b>{one.kind}</b>, one.text, one.advice, when(one)])}
      nothing="Nothing was wrong with how the ranks ran on this node."
      asks={{ json: nodeRequest(name) }}
    />
  );
}

function Ranks({ ranks, name }: { ranks: readonly NodeRank[]; name: string }) {
  const share = (time_us: number, { length_us }: NodeRank): string => percent(length_us > 0 ? time_us / length_us : null);
  const rows = ranks.map((one) => {
    const key = `${one.program}:${one.rank}`;
    const target = { page: 'calls', rank: key, node: '', call: null, cursor: null } as const;
    return [
      <a href={addressOf(target)} onClick={(event) => follow(event, target)} title="Its calls">
        {key}
      </a>,
      String(one.pid),
      one.cpus || 'unknown',
      String(one.threads),
      share(one.ran_us, one),
      share(one.system_us, one),
      share(one.waited_us, one),
    ];
  });
  return (
    <Listed
      name="node-ranks"
      title="Ranks, over all their threads"
      columns={[
        ['rank', false],
        ['process', true],
        ['may use cores', true],
        ['threads', true],
        ['ran', true],
        ['in the kernel', true],
        ['waited for a core', true],
      ]}
      rows={rows}
      nothing="No rank has been sampled on this node yet: agents report every 10 s, and at the end of the run."
      asks={{ json: nodeRequest(name) }}
    />
  );
}
