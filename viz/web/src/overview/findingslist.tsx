import { originName, ranked } from '../shared/names/answer';
import { incidentsCommand } from '../shared/asking/commands';
import { shorten, wrapped } from '../shared/names/names';
import { clock, lostUnit, count, exact, inUnit, plural, sign, sinceStart } from '../shared/units/units';
import { toNode } from '../shared/address/model/trail';
import type { View } from '../shared/address/model/view';
import { incidentsRequest } from '../shared/api/requests';
import { addressOf, follow } from '../shared/address/address';
import { hideTip, hoveredRank, showTip } from '../shared/session/page';
import { programs, zero_us } from '../shared/session/session';
import { Empty, NewOrder, Panel, Reading, useHeld } from '../shared/parts/panel';
import { Sentence } from '../shared/parts/sentence';
import { Table } from '../shared/parts/table';
import { ListChoice } from './listchoice';
import { findingKey, findingsOf, summaryOf, type Finding } from './model/findings';
import { incidents, incidentTimes, LISTED } from './overview';
import type { IncidentsAnswer, IncidentSummary, MetricFinding, NodeCost, RecurrenceSummary } from '../shared/api/types';

const orderOf = (found: IncidentsAnswer | null): string => (found === null ? '' : findingsOf(found).map(findingKey).join('\n'));

/** Findings about published quantities, and then incidents and recurring findings, the most time lost first. */
export function FindingsList() {
  const held = useHeld(incidents.value.value, orderOf);
  const found = held.shown;
  const findings = found === null ? [] : findingsOf(found);
  const unit = lostUnit(findings.flatMap((one) => one.cost_us ?? []));
  const costText = (us: number): string => inUnit(us, unit);
  return (
    <Panel
      name="incidents"
      title="Incidents"
      summary={findings[0] ? summaryOf(findings[0]).sentence : 'None.'}
      actions={
        <>
          <ListChoice />
          <NewOrder held={held} />
          {found !== null && (
            <span class="unit" data-total={found.total}>
              {countText(found, unit === 'clock' ? 'h:mm:ss' : unit)}
            </span>
          )}
        </>
      }
      hold={held.handlers}
      asks={{ json: incidentsRequest(LISTED, incidentTimes.value), command: (directory) => incidentsCommand(directory, LISTED) }}
      table={() => <FindingTable findings={findings} />}
    >
      {incidents.error.value !== null ? (
        <Empty>{incidents.error.value}</Empty>
      ) : found === null ? (
        <Reading what="incidents" />
      ) : (
        <ol>
          {findings.map((one) => (
            <li key={findingKey(one)}>
              {one.kind === 'metric' && <MetricLine row={one.metric} />}
              {one.kind === 'incident' && <IncidentLine row={one.incident} cost={sign(one.incident.bound) + costText(one.cost_us)} />}
              {one.kind === 'node' && <NodeLine row={one.node} cost={costText(one.cost_us)} />}
              {one.kind === 'recurring' && <RecurringLine row={one.recurring} cost={costText(one.cost_us)} />}
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

/** Number of findings, with the unit in which their times stand. */
function countText({ total, recurrences, nodes }: IncidentsAnswer, unit: string): string {
  const all = total + recurrences.length + nodes.length;
  return all === 0 ? 'none' : `${count(all)} · lost, ${unit}`;
}

const rankOf = (row: IncidentSummary): string | null => (row.rank === null ? null : `${row.program}:${row.rank}`);

const originOf = (row: IncidentSummary): string => (row.rank === null ? 'rank unknown' : ranked(`${row.program}:${row.rank}`, programs.value));

function IncidentLine({ row, cost }: { row: IncidentSummary; cost: string }) {
  return (
    <Line
      id={row.id}
      mark="◆"
      rank={rankOf(row)}
      name={originName(row, 28)}
      cost={cost}
      marked={row}
      where={`${originOf(row)}, ${clock(row.begin_us - zero_us.value)}: ${row.kind}, ${plural(row.ranks, 'rank')} lost time`}
      sentence={row.sentence}
      tip={[wrapped(row.sentence), `${plural(row.flags, 'abnormal call')}, from ${sinceStart(row.begin_us - zero_us.value)}`, 'click: why']}
      target={{ page: 'incident', incident: row.id, call: null }}
    />
  );
}

function MetricLine({ row: { id, sentence, finding } }: { row: MetricFinding }) {
  return (
    <Line
      id={id}
      mark="≠"
      rank={null}
      name={shorten(finding.quantity, 28).text}
      cost=""
      where={`published: ${finding.kind} on ${ranksOf(finding)}, from ${clock(finding.begin_us - zero_us.value)}`}
      sentence={sentence}
      tip={[wrapped(sentence), 'click: where, and since when']}
      target={{ page: 'incident', incident: id, call: null }}
    />
  );
}

function NodeLine({ row: { node, kind, sentence, begin_us }, cost }: { row: NodeCost; cost: string }) {
  return (
    <Line
      id={`node ${node}`}
      mark="▣"
      rank={null}
      name={shorten(node, 28).text}
      cost={cost}
      where={`node: ${kind}, from ${clock(begin_us - zero_us.value)}`}
      sentence={sentence}
      tip={[wrapped(sentence), 'click: the node']}
      target={toNode(node)}
    />
  );
}

const ranksOf = ({ ranks }: MetricFinding['finding']): string => (ranks.length === 0 ? 'all ranks' : `rank ${ranks.join(', ')}`);

function RecurringLine({ row, cost }: { row: RecurrenceSummary; cost: string }) {
  const { id, sentence, recurrence } = row;
  return (
    <Line
      id={id}
      marked={row}
      mark="↻"
      rank={null}
      name={recurrence.function === '' ? recurrence.kind : shorten(recurrence.function, 28).text}
      cost={cost}
      where={`recurs: ${recurringPlace(recurrence)}, from ${clock(recurrence.begin_us - zero_us.value)}`}
      sentence={sentence}
      tip={[wrapped(sentence), 'click: how, where, and since when']}
      target={{ page: 'incident', incident: id, call: null }}
    />
  );
}

function recurringPlace({ calls, ranks }: RecurrenceSummary['recurrence']): string {
  const where = ranks.length > 0 ? `on ${plural(ranks.length, 'rank')}` : '';
  return [calls > 0 ? `${exact(calls)} calls` : '', where].filter((part) => part !== '').join(' ');
}

interface LineProps {
  id: string;
  mark: string;
  rank: string | null;
  name: string;
  cost: string;
  where: string;
  /** Mark that somebody gave it. */
  marked?: Pick<IncidentSummary, 'mark' | 'note' | 'marked_by'>;
  sentence: string;
  tip: readonly string[];
  target: Partial<View>;
}

function Line({ id, mark, rank, name, cost, where, marked, sentence, tip, target }: LineProps) {
  const dim = (hoveredRank.value !== null && hoveredRank.value !== rank) || marked?.mark === 'ignored';
  const show = (element: HTMLElement, delay?: number): void => {
    hoveredRank.value = rank;
    const box = element.getBoundingClientRect();
    const said = marked === undefined || marked.mark === '' ? [] : [`${marked.mark} by ${marked.marked_by}${marked.note === '' ? '' : `: ${marked.note}`}`];
    showTip({ x: box.left + 24, y: box.bottom - 8, lines: [...tip, ...said] }, delay);
  };
  const leave = (): void => {
    hoveredRank.value = null;
    hideTip();
  };
  return (
    <a
      class={dim ? 'call-line finding dim' : 'call-line finding'}
      href={addressOf(target)}
      data-finding={id}
      onClick={(event) => follow(event, target)}
      onPointerEnter={(event) => show(event.currentTarget)}
      onPointerLeave={leave}
      onFocus={(event) => show(event.currentTarget, 0)}
      onBlur={leave}
    >
      <span class="finding-mark" aria-hidden="true">
        {mark}
      </span>
      <span class="call-name">
        <code>{name}</code>
      </span>
      <span class="call-lost">{cost}</span>
      <span class="call-where">
        {marked !== undefined && marked.mark !== '' && <b class="mark-tag">{marked.mark}</b>}
        {where}
      </span>
      <span class="finding-sentence">
        <Sentence text={sentence} />
      </span>
    </a>
  );
}

function FindingTable({ findings }: { findings: readonly Finding[] }) {
  const columns = [
    { heading: 'finding' },
    { heading: 'what happened' },
    { heading: 'lost, s', isNumber: true },
    { heading: 'origin' },
    { heading: 'cause' },
    { heading: 'abnormal calls', isNumber: true },
    { heading: 'ranks', isNumber: true },
    { heading: 'from' },
  ];
  const rows = findings.map((one) => {
    if (one.kind === 'incident') {
      const { id, sentence, cost_us, bound, kind, flags, ranks, begin_us } = one.incident;
      return [id, sentence, sign(bound) + seconds(cost_us), originOf(one.incident), kind, exact(flags), exact(ranks), sinceStart(begin_us - zero_us.value)];
    }
    if (one.kind === 'metric') {
      const { id, sentence, finding } = one.metric;
      const { kind, ranks, begin_us } = finding;
      return [id, sentence, '–', ranksOf(finding), kind, '–', ranks.length === 0 ? 'all' : exact(ranks.length), sinceStart(begin_us - zero_us.value)];
    }
    if (one.kind === 'node') {
      const { node, sentence, cost_us, kind, begin_us } = one.node;
      return [node, sentence, seconds(cost_us), '–', kind, '–', '–', sinceStart(begin_us - zero_us.value)];
    }
    const { kind, cost_us, calls, ranks, begin_us } = one.recurring.recurrence;
    return [one.recurring.id, one.recurring.sentence, seconds(cost_us), '–', kind, exact(calls), exact(ranks.length), sinceStart(begin_us - zero_us.value)];
  });
  return <Table columns={columns} rows={rows} />;
}

const seconds = (us: number): string => (us / 1e6).toFixed(3);
