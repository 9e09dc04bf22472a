/** Health of the analysis, in words. */

import { bytes, count, digits, duration, exact, percent, plural, ratio } from '../../shared/units/units';
import type { Budget, Census, Run, StepSum, StreamHealth, Vital, Vitals } from '../../shared/api/types';

const LATE_US = 5e6;

/** Transport of a trace that was analysed when the program had ended. */
const RECORDED = 'recorded';

/** First sentence of the page: whether the findings can be trusted and, if not, why. They are where the call data is complete. */
export function healthAnswer(vitals: Vitals): string {
  const { status, sums, census } = vitals;
  if (sums.streams === 0) return 'Nothing is known yet, because no stream has been read.';
  const hasEnded = status.state === 'ended';
  if (census.verdict === 'unknown' && hasEnded) return `Call data ${census.sentence}.`;
  const doubts = doubtsOf(vitals);
  if (doubts.length > 0) return `With care: ${doubts.join('; ')}.`;
  const who = hasEnded
    ? `${ranksOf(sums.streams)} ${sums.streams === 1 ? 'was read to its end' : 'were read to their end'}`
    : `${ranksOf(sums.streams)} ${sums.streams === 1 ? 'reports' : 'report'}`;
  const said = [who];
  if (status.lag_us !== null) said.push(`lag ${duration(status.lag_us)}`);
  const share = cpuShare(vitals);
  if (share !== null && vitals.transport !== RECORDED) said.push(`agents take ${percent(share)} of a core per rank`);
  if (census.verdict === 'complete') return `Trustworthy: call data complete, ${said.join(', ')}.`;
  return hasEnded ? `Call data: ${census.sentence}; ${said.join(', ')}.` : `No loss known so far: ${said.join(', ')}.`;
}

const ranksOf = (ranks: number): string => (ranks === 1 ? 'the one rank' : ranks === 2 ? 'both ranks' : `all ${exact(ranks)} ranks`);

/** Number of calls that are missing, for whatever reason. */
export const missing = ({ differences }: Pick<Census, 'differences'>): number => Object.values(differences).reduce((sum, one) => sum + one, 0);

function doubtsOf({ status, sums, agents, census }: Vitals): string[] {
  const { states } = sums;
  const doubts: string[] = [];
  if (missing(census) > 0) doubts.push(`call data ${census.sentence}`);
  const were = (n: number): string => (n === 1 ? 'was' : 'were');
  if (sums.gap_steps > 0)
    doubts.push(
      `${plural(sums.gap_steps, 'step')} of ${plural(sums.lossy_ranks, 'rank')} ${were(sums.gap_steps)} not analysed, so their counts are lower bounds`,
    );
  const kinds = Object.entries(sums.losses).map(([kind, lost]) => `${exact(lost)} ${kind}`);
  if (kinds.length > 0) doubts.push(`${kinds.join(' and ')} could not be used`);
  if (states.broken) doubts.push(`${plural(states.broken, 'stream')} broke off without an end`);
  if (states.lost) doubts.push(`${plural(states.lost, 'stream')} could not be read any more`);
  if (states.silent) doubts.push(`${plural(states.silent, 'rank')} ${states.silent === 1 ? 'gives' : 'give'} no steps`);
  const silent = agents.filter((agent) => agent.is_silent).length;
  if (silent > 0) doubts.push(`${plural(silent, 'agent')} ${silent === 1 ? 'does' : 'do'} not answer`);
  if (status.state === 'stale' && doubts.length === 0) doubts.push('nothing new has arrived for a while');
  if ((status.lag_us ?? 0) > LATE_US) doubts.push(`the analysis is ${duration(status.lag_us ?? 0)} behind`);
  return doubts;
}

/** CPU time of all agents per second of trace and per rank; null where it is not known. */
export function cpuShare({ agent_sums, status, sums }: Vitals): number | null {
  if (agent_sums === null || status.clock_us <= 0 || sums.streams === 0) return null;
  return agent_sums.cpu_s / (status.clock_us / 1e6) / sums.streams;
}

/** What the analysis cost the program, in a sentence; empty while that is not known. */
export function costAnswer({ transport, agent_sums, sums }: Vitals, budget: Budget | null): string {
  if (sums.rows === 0) return '';
  if (transport === RECORDED) {
    const took = agent_sums === null ? '' : `, and took ${duration(agent_sums.cpu_s * 1e6)} of CPU time`;
    return `No: the trace was analysed when it was whole${took}. What recording it cost is not on record.`;
  }
  if (budget === null || budget.total_us <= 0) return '';
  const lost_us = budget.lost.analysis_us;
  if (!budget.is_sampled) return 'Not known, because no node was sampled.';
  if (lost_us <= 0) return 'No wait of the program for the analysis is known.';
  return `Yes: the program waited ${duration(lost_us)} for cores that the analysis had, ${percent(lost_us / budget.total_us)} of the time of its threads.`;
}

/** One stage on the way of the events from the application to the page. */
export interface Station {
  name: string;
  figure: string;
  detail: string;
  /** Whether something is wrong in this stage. */
  warns: boolean;
}

const CAME: Record<string, string> = { files: ', through files', sst: ', over SST', recorded: ', recorded' };

/** Reduction of the data; in a run of seconds, the empty tables alone are larger than the trace. */
const reduced = (times: number): string => (times >= 1.5 ? `${ratio(times)} less` : 'small');

/** The first stage. Of an imported run there are the recorded calls, and none of the events that these were found in. */
function application({ status, sums, transport }: Vitals): Station {
  const name = 'application';
  if (sums.rows === 0 && sums.calls > 0) return { name, figure: 'not on record', detail: `${plural(sums.calls, 'call')} without their trace`, warns: false };
  const clock_s = status.clock_us / 1e6;
  return {
    name,
    figure: clock_s > 0 ? `${count(Math.round(sums.rows / clock_s))} events/s` : 'no steps yet',
    detail: `${count(sums.rows)} events, ${bytes(sums.size_bytes)}${CAME[transport] ?? ''}`,
    warns: false,
  };
}

export function pipeline(vitals: Vitals): Station[] {
  const { status, sums, storage, agent_sums, agents_total } = vitals;
  const hasEnded = status.state === 'ended';
  const calls = missing(vitals.census);
  const lost = calls + sums.gap_steps + Object.values(sums.losses).reduce((sum, one) => sum + one, 0);
  const nothing = vitals.census.verdict === 'complete' ? 'nothing' : 'nothing known';
  const kept = storage.stored_bytes;
  return [
    application(vitals),
    {
      name: 'lost',
      figure: lost === 0 ? nothing : calls > 0 ? plural(calls, 'call') : plural(sums.gap_steps, 'step'),
      detail: lost === 0 ? `of ${plural(sums.steps, 'step')}` : lost === calls ? reasons(vitals.census) : losses(sums),
      warns: lost > 0,
    },
    {
      name: agents_total === 0 ? 'agents' : plural(agents_total, 'agent'),
      figure: agent_sums === null ? 'unknown' : hasEnded ? `${digits(agent_sums.cpu_s)} s CPU` : `${digits(agent_sums.lag_s)} s behind`,
      detail: agent_sums === null ? 'known only during the run' : `${bytes(agent_sums.pss_bytes)} of memory`,
      warns: vitals.agents.some((agent) => agent.is_silent) || (!hasEnded && (agent_sums?.lag_s ?? 0) > LATE_US / 1e6),
    },
    {
      name: 'store',
      figure: kept ? reduced(storage.trace_bytes / kept) : 'elsewhere',
      detail: kept ? `${bytes(kept)} kept` : 'size not known',
      warns: false,
    },
    {
      name: 'page',
      figure: hasEnded ? 'complete' : status.lag_us === null ? 'recorded trace' : `${duration(status.lag_us)} old`,
      detail: hasEnded ? status.sentence : status.state === 'live' ? 'up to date' : status.sentence,
      warns: status.state === 'stale' || status.state === 'behind',
    },
  ];
}

export function losses({ gap_steps, losses: kinds }: Pick<StreamHealth, 'gap_steps' | 'losses'>): string {
  const found = Object.entries(kinds).map(([kind, lost]) => `${exact(lost)} ${kind}`);
  return [...(gap_steps > 0 ? [plural(gap_steps, 'step')] : []), ...found].join(', ') || 'nothing';
}

/** Missing calls in words, by reason. */
export const reasons = ({ differences }: Pick<Census, 'differences'>): string =>
  Object.entries(differences)
    .map(([reason, calls]) => `${exact(calls)} ${reason}`)
    .join('; ');

/** One quantity over time, as a line: its name, its values, and how to format one. */
export interface Strip {
  name: string;
  values: (number | null)[];
  text: (value: number) => string;
}

/** Return the history as lines over the same times; rates are per second. */
export function strips(history: readonly Vital[]): { times_us: number[]; strips: Strip[] } {
  const later = history.slice(1);
  const rate = later.map((now, at) => {
    const before = history[at] as Vital;
    return (now.rows - before.rows) / Math.max(1e-6, (now.time_us - before.time_us) / 1e6);
  });
  return {
    times_us: later.map((one) => one.time_us),
    strips: [
      { name: 'events per second', values: rate, text: (value) => count(Math.round(value)) },
      { name: 'lag', values: later.map((one) => one.lag_us), text: duration },
      { name: 'waiting for the store', values: later.map((one) => one.spool_bytes), text: (value) => bytes(Math.round(value)) },
      { name: 'memory of agents', values: later.map((one) => one.pss_bytes), text: (value) => bytes(Math.round(value)) },
    ],
  };
}

/** Calls per second of all programs together, for runs of which nothing else is known over time. */
export function callStrip(sums: readonly StepSum[]): { times_us: number[]; strips: Strip[] } {
  const bySteps = new Map<number, StepSum>();
  for (const one of sums) {
    const other = bySteps.get(one.step);
    const both = other && {
      ...one,
      start_us: Math.min(one.start_us, other.start_us),
      end_us: Math.max(one.end_us, other.end_us),
      calls: one.calls + other.calls,
    };
    if (one.start_us > 0) bySteps.set(one.step, both ?? one);
  }
  const all = [...bySteps.values()].sort((a, b) => a.step - b.step);
  const values = all.map(({ start_us, end_us, calls }) => calls / Math.max(1e-3, (end_us - start_us) / 1e6));
  const strip: Strip = { name: 'calls per second', values, text: (value) => count(Math.round(value)) };
  return { times_us: all.map(({ end_us }) => end_us), strips: [strip] };
}

/** Power of 8 by which steps are summed so that at most `most` sums remain. */
export function levelFor(steps: number, most: number): number {
  return Math.min(4, Math.max(0, Math.ceil(Math.log(Math.max(1, steps) / most) / Math.log(8))));
}

/** Settings of the analysis, by the names of the command line's options. */
const SETTINGS: readonly (readonly [field: string, name: string, text: (value: never) => string])[] = [
  ['detector', 'detector', (value: string) => value],
  ['threshold', 'threshold', (value: number | null) => (value === null ? 'the default' : digits(value))],
  ['thresholds', 'thresholds of functions', (value: [string, number][]) => value.map(([name, at]) => `${name}: ${digits(at)}`).join(', ') || 'none'],
  ['ignore', 'functions ignored', (value: string[]) => value.join(', ') || 'none'],
  ['metric', 'runtime that is judged', (value: string) => value],
  ['fast_side', 'short calls flagged too', yes],
  ['min_anomaly_us', 'least difference flagged', duration],
  ['max_anomalies_per_function', 'recorded per function and period', exact],
  ['window_calls', 'neighbours kept', (value: number) => `${value} before, ${value} after`],
  ['period_us', 'trace period', duration],
  ['lockstep', 'streams wait for each other', yes],
  ['is_frozen', 'judged by a loaded model', yes],
  ['record_from_step', 'recorded from step', exact],
  ['record_to_step', 'recorded to step', (value: number | null) => (value === null ? 'the last' : exact(value))],
  ['watched_counters', 'counters of the node', (value: string[]) => value.join(', ') || 'none'],
  ['max_messages', 'messages kept per call', exact],
  ['max_counters', 'counters kept per call', exact],
  ['spool_limit_bytes', 'spool of a stream, at most', bytes],
  ['recorder_bytes', 'flight recorder of a stream', bytes],
  ['node_samples', 'live ranks are sampled on their nodes', yes],
];

function yes(value: boolean): string {
  return value ? 'yes' : 'no';
}

/** Settings of the detector and of what is kept, as name and value. */
export function settings(config: Run['config']): [name: string, value: string][] {
  const given = config as unknown as Record<string, unknown>;
  return SETTINGS.filter(([field]) => field in given).map(([field, name, text]) => [name, text(given[field] as never)]);
}

/** Rows by what is told of them: those of which the same is told stand together. */
export function together<T>(rows: readonly T[], told: (row: T) => readonly string[]): T[][] {
  const found = new Map<string, T[]>();
  for (const row of rows) {
    const key = JSON.stringify(told(row));
    found.set(key, [...(found.get(key) ?? []), row]);
  }
  return [...found.values()];
}

/** Most names that are written out. */
const MOST_NAMES = 5;

/** Names of ranks or nodes that stand together. */
export function namesText(names: readonly string[], noun: string): string {
  if (names.length < 2) return names.join('');
  const shown = names.length <= MOST_NAMES ? names : [names[0], '…', names.at(-1)];
  return `${plural(names.length, noun)}: ${shown.join(', ')}`;
}
