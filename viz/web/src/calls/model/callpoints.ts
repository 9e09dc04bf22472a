/** Calls of a chart, in columns as the server sends them, and their descriptions. */

import { ranked } from '../../shared/names/answer';
import { filtersOf } from '../../shared/asking/filters';
import { shorten } from '../../shared/names/names';
import { count, duration, exact, plural, ratio, score, sinceStart, wallClock } from '../../shared/units/units';
import type { Sort, View } from '../../shared/address/model/view';
import type { CallSummary, Points, Run } from '../../shared/api/types';

/** A call of the chart with the fields that lists show, and its caller. */
export interface PointCall extends CallSummary {
  caller: string | null;
}

/** Facts about the run that are needed to describe a call. */
export interface Wording {
  zero_us: number;
  programs: number;
  metric: Run['config']['metric'];
  scoreUnit: string;
  /** Whether the run has ended, so that a call that is open then goes on no more. */
  isOver?: boolean;
}

/** Id of the call at an index. */
export function idAt({ ranks, columns }: Points, at: number): string {
  return `${ranks[columns.rank[at] as number]}:${columns.begin_step[at]}:${columns.begin_row[at]}`;
}

/** Index of a call; -1 where it is not among them. */
export function indexOf(points: Points, id: string): number {
  const [program, rank, step, row] = id.split(':');
  const place = points.ranks.indexOf(`${program}:${rank}`);
  const { columns } = points;
  for (let at = 0; at < columns.rank.length; at++) {
    if (columns.begin_row[at] === Number(row) && columns.begin_step[at] === Number(step) && columns.rank[at] === place) return at;
  }
  return -1;
}

/** The call at an index, with all its fields. */
export function callAt(points: Points, at: number): PointCall {
  const { functions, ranks, nodes, columns } = points;
  const number = (
    name: 'thread' | 'step' | 'entry_us' | 'inclusive_us' | 'exclusive_us' | 'expected_us' | 'severity_us' | 'score' | 'children' | 'messages_count',
  ): number => columns[name][at] as number;
  const place = columns.rank[at] as number;
  const [program = 0, rank = 0] = (ranks[place] as string).split(':').map(Number);
  return {
    id: idAt(points, at),
    program,
    rank,
    node: nodes[place] as string,
    thread: number('thread'),
    function: functions[columns.function[at] as number] as string,
    caller: functions[columns.caller[at] as number] ?? null,
    label: columns.is_anomaly[at] ? 'anomaly' : 'normal',
    step: number('step'),
    entry_us: number('entry_us'),
    exit_us: columns.is_open[at] ? 0 : number('entry_us') + number('inclusive_us'),
    inclusive_us: number('inclusive_us'),
    exclusive_us: number('exclusive_us'),
    expected_us: number('expected_us'),
    severity_us: number('severity_us'),
    score: number('score'),
    children: number('children'),
    messages_count: number('messages_count'),
    is_gpu: columns.is_gpu[at] as boolean,
  };
}

/** Indices of the anomalies, in the order of the list of calls. */
export function anomaliesBy({ columns }: Points, sort: Sort, descending: boolean): number[] {
  const values = columns[sort];
  const way = descending ? -1 : 1;
  const found: number[] = [];
  columns.is_anomaly.forEach((isAnomaly, at) => isAnomaly && found.push(at));
  return found.sort((a, b) => way * ((values[a] as number) - (values[b] as number)));
}

/** Until when a call lasts that has no end in anything that was recorded, as the `main` of many programs. */
export const openEnd = (isOver: boolean): string => (isOver ? 'the end of what was recorded' : 'now: it has not ended');

/** Lines of a call's tooltip: function, runtime, expectation, judgement, place, time and context. */
export function callLines(call: CallSummary & { caller?: string | null }, { zero_us, programs, metric, scoreUnit, isOver = false }: Wording): string[] {
  const took = call[`${metric}_us`];
  const times = call.expected_us > 0 ? `, ${ratio(took / call.expected_us)}` : '';
  const isAnomaly = call.label === 'anomaly';
  const until = call.exit_us === 0 ? openEnd(isOver) : sinceStart(call.exit_us - zero_us);
  const by = call.caller === undefined ? '' : call.caller === null ? 'caller unknown, ' : `called by ${shorten(call.caller, 40).text}, `;
  return [
    call.function.length > 240 ? `${call.function.slice(0, 239)}…` : call.function,
    `inclusive ${duration(call.inclusive_us)}, exclusive ${duration(call.exclusive_us)}`,
    `expected ${metric} ${duration(call.expected_us)}${times}`,
    `${isAnomaly ? `${isFaster(call, metric) ? '▼' : '▲'} anomaly: ${duration(call.severity_us)} lost` : '○ normal'}, score ${score(call.score, scoreUnit)}`,
    `${ranked(`${call.program}:${call.rank}`, programs)}, thread ${call.thread}${call.node && `, node ${call.node}`}${call.is_gpu ? ', on a GPU' : ''}, step ${exact(call.step)}`,
    `${sinceStart(call.entry_us - zero_us)} to ${until}; ${wallClock(call.entry_us)}`,
    `${by}${call.children} ${call.children === 1 ? 'child' : 'children'}, ${plural(call.messages_count, 'message')}`,
  ];
}

/** Whether an anomaly was faster than usual. */
export function isFaster(call: Pick<CallSummary, 'inclusive_us' | 'exclusive_us' | 'expected_us'>, metric: Run['config']['metric']): boolean {
  return call[`${metric}_us`] < call.expected_us;
}

export const anomalies = (n: number): string => `${exact(n)} ${n === 1 ? 'anomaly' : 'anomalies'}`;

/** First sentence of the page of calls: the filters, and how many calls are abnormal, kept and analysed. */
export function callsAnswer(points: Points, view: View, programs: number): string {
  const filters = filtersOf(view)
    .filter((filter) => !('label' in filter.dropped))
    .map((filter) => filter.text(view, programs));
  const where = filters.length === 0 ? 'The whole run' : filters.join(', ');
  const kept = points.anomalies + points.normal_calls;
  const of = points.analysed === null ? '' : ` of ${count(points.analysed)} analysed`;
  const found = { any: `${anomalies(points.anomalies)}, ${exact(kept)} kept`, anomaly: anomalies(kept), normal: `${exact(kept)} normal kept` };
  const what = kept === 0 ? 'no call kept' : found[view.label];
  return `${where[0]?.toUpperCase()}${where.slice(1)}: ${what}${of}${worst(points)}.`;
}

function worst({ functions, columns }: Points): string {
  if (columns.is_anomaly[0] !== true) return '';
  const name = shorten(functions[columns.function[0] as number] as string, 40).text;
  return `; worst ${name}, ${duration(columns.severity_us[0] as number)} lost`;
}
