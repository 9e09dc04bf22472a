/** First sentences of pages. */

import { judgedUs } from './calls';
import { shorten } from './names';
import { oneRank, type RankRange } from '../address/model/ranges';
import { bounded, count, duration, percent, plural, ratio } from '../units/units';
import type { Answer, Bound, CallSummary, FunctionStatistics, IncidentsAnswer, IncidentSummary, Run } from '../api/types';

/** Ranks in words: `rank 3`, with several programs `rank 1:3`, or `ranks 16..31`. */
export const ranked = (rank: RankRange, programs: number): string => `${oneRank(rank) === null ? 'ranks' : 'rank'} ${programs > 1 ? rank : rank.split(':')[1]}`;

/** First sentence of the overview, from the anomalies of the run. */
export function overviewAnswer(run: Run): string {
  const { answer, status } = run;
  if (answer.anomalies === 0) return nothingYet(answer, run);
  const programs = Object.keys(run.programs).length;
  const found = `${plural(answer.anomalies, 'anomaly')} on ${plural(answer.ranks_with_anomalies, 'rank')}`;
  if (answer.worst_function === null) return `${found} of ${status.ranks}.`;
  const name = shorten(answer.worst_function, 40).text;
  const where = answer.worst_rank === null ? '' : `, worst call on ${ranked(answer.worst_rank, programs)}`;
  return `${found}; most time lost in ${name}: ${duration(answer.worst_severity_us)}${where}.`;
}

/** Where most of the lost time comes from, and the time of all threads; null where that is not known. */
export interface Whole {
  total_us: number | null;
  rank: { key: string; lost_us: number; bound?: Bound | undefined } | null;
  function: { name: string; lost_us: number; bound?: Bound | undefined } | null;
}

/** First sentences of the overview: what a node cost where that is more than all incidents, then what these cost, because of what, and the worst. */
export function incidentsAnswer(found: IncidentsAnswer, programs: number, whole: Whole): string {
  const { incidents, recurrences, nodes, total, cost_us, bound } = found;
  const lost_us = cost_us + recurrences.reduce((sum, one) => sum + one.recurrence.cost_us, 0);
  const share = (us: number, sure: Bound): string =>
    `${bounded(us, sure)}${whole.total_us !== null && whole.total_us > 0 ? ` (${percent(us / whole.total_us)})` : ''}`;
  const [node] = nodes;
  const isNodeFirst = node !== undefined && node.cost_us > lost_us;
  const before = isNodeFirst
    ? `${node.kind[0]?.toUpperCase()}${node.kind.slice(1)} on ${node.node}: its threads waited ${share(node.cost_us, 'exact')} for a core. `
    : '';
  const counted = [
    ...(total > 0 || recurrences.length === 0 ? [plural(total, 'incident')] : []),
    ...(recurrences.length > 0 ? [plural(recurrences.length, 'recurring finding')] : []),
  ];
  const all = `${before}${counted.join(' and ')} lost ${share(lost_us, bound)}`;
  const [worst] = incidents;
  const [recurring] = recurrences;
  const largest_us = Math.max(worst?.cost_us ?? 0, whole.function?.lost_us ?? 0);
  if (recurring !== undefined && recurring.recurrence.cost_us > largest_us) {
    const { function: name, kind, cost_us: cost } = recurring.recurrence;
    return `${all}, most by a recurring finding, ${name === '' ? kind : `${kind} of ${shorten(name, 40).text}`}: ${duration(cost)}.`;
  }
  if (worst === undefined) return `${all}.`;
  const place = worst.rank === null ? '' : ` on ${ranked(`${worst.program}:${worst.rank}`, programs)}`;
  const what = `${originName(worst, 40)}${place}`;
  if (total === 1 && recurrences.length === 0) return `${all}: ${what}.`;
  const because = [
    ...(whole.function === null ? [] : [`${shorten(whole.function.name, 40).text} (${bounded(whole.function.lost_us, whole.function.bound)})`]),
    ...(whole.rank === null ? [] : [`${ranked(whole.rank.key, programs)} (${bounded(whole.rank.lost_us, whole.rank.bound)})`]),
  ];
  return `${all}${because.length > 0 ? `, most because of ${because.join(' and ')}` : ''}; the worst: ${what}, ${bounded(worst.cost_us, worst.bound)}.`;
}

/** Function that an incident began in or, where it was no call, its cause: who took a core is known. */
export function originName({ function: name, kind }: Pick<IncidentSummary, 'function' | 'kind'>, most: number): string {
  if (name !== '') return shorten(name, most).text;
  return kind === '' || kind === 'not explained' ? 'a call that is not on record' : kind;
}

/** Sentence about published quantities: the first finding, and the number of further ones. */
export function metricsAnswer({ metrics }: Pick<IncidentsAnswer, 'metrics'>): string[] {
  const [first] = metrics;
  if (first === undefined) return [];
  return [metrics.length === 1 ? first.sentence : `${first.sentence} ${plural(metrics.length - 1, 'more finding')} about published quantities.`];
}

function nothingYet(answer: Answer, run: Run): string {
  const { status } = run;
  if (status.last_step === null) return 'Waiting for the first analysed step.';
  const until = status.state === 'ended' ? 'No anomalies.' : 'No anomalies yet.';
  const judged = `${count(answer.functions_judged)} of ${plural(answer.functions, 'function')} can be judged`;
  return `${until} ${status.ranks_reporting}/${status.ranks} ranks report; ${judged}.`;
}

/** Factor, up or down, from which on a change of runtimes is called a drift. */
const DRIFT = 1.2;

/** First sentences of a function's page: how often it is abnormal, the time lost, and whether it drifts. */
export function functionAnswer(found: FunctionStatistics, ranks: number | null): string {
  const name = shorten(found.name, 40).text;
  const calls = plural(found.calls, 'call');
  const drifts = found.drift >= DRIFT || found.drift <= 1 / DRIFT;
  const drift = drifts ? ` Its calls now take ${ratio(found.drift)} as long as at first.` : ' Its calls take as long as at first.';
  if (found.anomalies === 0) return `${name}: none of ${calls} was abnormal.${drift}`;
  const where = ranks === null || ranks === 0 ? '' : ` on ${plural(ranks, 'rank')}`;
  const rate = found.anomalies / Math.max(1, found.calls);
  return `${name}: ${count(found.anomalies)} of ${calls} abnormal (${percent(rate)}), ${duration(found.severity_us)} lost in these${where}.${drift}`;
}

/** Factor from which on it says nothing any more, as for usual runtimes below 10 µs: that 150 ms are 50,000 times as long as 3 µs. */
const MOST_TIMES = 1000;
const LEAST_USUAL_US = 10;

/** How a runtime stands to the usual one, as the end of a clause; empty where that is not known. */
function againstUsual(took: number, usual: number): string {
  if (usual <= 0) return '';
  const isTelling = took / usual < MOST_TIMES && usual >= LEAST_USUAL_US;
  return isTelling ? `, ${ratio(took / usual)} its usual ${duration(usual)}` : ` instead of ${duration(usual)}`;
}

/** First sentence of a call's page. */
export function callAnswer(record: CallSummary, metric: Run['config']['metric'], programs: number): string {
  const name = shorten(record.function, 40).text;
  const open = record.exit_us === 0;
  const took = judgedUs(record, metric);
  const where = ranked(`${record.program}:${record.rank}`, programs);
  if (record.label !== 'anomaly') return `${name} on ${where} took ${duration(took)}: a normal call.`;
  const times = againstUsual(took, record.expected_us);
  if (open) return `${name} on ${where} had not ended after ${duration(took)}${times}: ${duration(record.severity_us)} lost by then.`;
  const [verb, place] = metric === 'exclusive' && record.children > 0 ? ['spent', ' in its own code'] : ['took', ''];
  return `${name} on ${where} ${verb} ${duration(took)}${place}${times}: ${duration(record.severity_us)} lost.`;
}
