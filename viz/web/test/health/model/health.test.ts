import { describe, expect, test } from 'vitest';
import {
  callStrip,
  cpuShare,
  costAnswer,
  healthAnswer,
  levelFor,
  losses,
  namesText,
  pipeline,
  settings,
  strips,
  together,
} from '../../../src/health/model/health';
import type { Budget, Agent, Census, Run, Status, Vital, Vitals } from '../../../src/shared/api/types';

const agent: Agent = { name: 'agent-0', node: 'c042', streams: 4, pss_bytes: 99e6, cpu_s: 4, spool_bytes: 4096, lag_s: 0.4, age_s: 3, is_silent: false };
const status = { state: 'live', sentence: '', clock_us: 100e6, lag_us: 1.2e6, last_step: 99 } as Status;
const sums = {
  streams: 4,
  states: { reading: 4 },
  steps: 400,
  rows: 200_000,
  size_bytes: 8e6,
  calls: 90_000,
  gap_steps: 0,
  lossy_ranks: 0,
  losses: {},
  largest_step_bytes: 1000,
};
const census = { verdict: 'complete', sentence: 'complete', seen: 90_000, analysed: 90_000, counted: 4, uncounted: 0, differences: {}, ranks: [] } as Census;
const unsaid = 'no loss known, but what recorded 4 ranks does not say how many calls it saw';
const vitals = (more: Partial<Vitals> = {}, of: Partial<Vitals['sums']> = {}, at: Partial<Status> = {}): Vitals => ({
  agents: [agent],
  census,
  agent_sums: agent,
  agents_total: 1,
  slow_ranks: [],
  storage: { trace_bytes: 8e6, stored_bytes: 200e3 },
  unrecorded: [],
  unrecorded_total: 0,
  pruned: [],
  pruned_total: 0,
  history: [],
  ...more,
  status: { ...status, ...at },
  sums: { ...sums, ...of },
});
const station = (of: Vitals, name: string) => pipeline(of).find((one) => one.name === name);

describe('what the analysis cost the program', () => {
  const budget = (analysis_us: number, is_sampled = true) => ({ total_us: 100e6, is_sampled, lost: { analysis_us } }) as Budget;
  test('is what it waited for cores that the analysis had', () =>
    expect(costAnswer(vitals(), budget(290e3))).toBe('Yes: the program waited 290 ms for cores that the analysis had, 0.29 % of the time of its threads.'));
  test('is nothing where no wait is known', () => expect(costAnswer(vitals(), budget(0))).toBe('No wait of the program for the analysis is known.'));
  test('is not known without samples', () => expect(costAnswer(vitals(), budget(0, false))).toBe('Not known, because no node was sampled.'));
  test('is nothing of a trace that was whole', () =>
    expect(costAnswer(vitals({ transport: 'recorded' }), null)).toMatch(/^No: the trace was analysed when it was whole, and took .* of CPU time\./));
});

describe('the answer', () => {
  test('is yes where nothing is wrong, with what makes it so', () =>
    expect(healthAnswer(vitals())).toBe('Trustworthy: call data complete, all 4 ranks report, lag 1.2 s, agents take 1 % of a core per rank.'));
  test('of a run that has ended', () =>
    expect(healthAnswer(vitals({ agents: [], agent_sums: null }, { streams: 1, states: { ended: 1 } }, { state: 'ended', lag_us: null }))).toBe(
      'Trustworthy: call data complete, the one rank was read to its end.',
    ));
  test('is no praise where the sources do not say how many calls they saw', () => {
    const of = { census: { ...census, verdict: 'no loss known', sentence: unsaid } } as Partial<Vitals>;
    expect(healthAnswer(vitals(of))).toBe('No loss known so far: all 4 ranks report, lag 1.2 s, agents take 1 % of a core per rank.');
    expect(healthAnswer(vitals({ ...of, agents: [], agent_sums: null }, {}, { state: 'ended', lag_us: null }))).toBe(
      `Call data: ${unsaid}; all 4 ranks were read to their end.`,
    );
  });
  test('of an imported run of which no event is on record is that nothing is known', () => {
    const of = { census: { ...census, verdict: 'unknown', sentence: 'unknown, as how much was recorded is not on record' } } as Partial<Vitals>;
    expect(healthAnswer(vitals(of, {}, { state: 'ended' }))).toBe('Call data unknown, as how much was recorded is not on record.');
  });
  test('says how many calls are missing', () => {
    const of = {
      census: { ...census, verdict: 'incomplete', sentence: 'incomplete, 9 of 90,000 calls (0.01 %) are missing', differences: { 'without room': 9 } },
    } as Partial<Vitals>;
    expect(healthAnswer(vitals(of))).toBe('With care: call data incomplete, 9 of 90,000 calls (0.01 %) are missing.');
    expect(station(vitals(of), 'lost')).toMatchObject({ figure: '9 calls', detail: '9 without room', warns: true });
  });
  test('says what was lost, and what follows', () =>
    expect(healthAnswer(vitals({}, { gap_steps: 37, lossy_ranks: 2, losses: { rows: 3 } }))).toBe(
      'With care: 37 steps of 2 ranks were not analysed, so their counts are lower bounds; 3 rows could not be used.',
    ));
  test('names streams without an end, silent ranks, and agents that do not answer', () => {
    const found = healthAnswer(vitals({ agents: [{ ...agent, is_silent: true }] }, { states: { reading: 1, silent: 1, broken: 2 } }));
    expect(found).toBe('With care: 2 streams broke off without an end; 1 rank gives no steps; 1 agent does not answer.');
  });
  test('says when it is behind, and when nothing comes', () => {
    expect(healthAnswer(vitals({}, {}, { state: 'behind', lag_us: 14e6 }))).toBe('With care: the analysis is 14 s behind.');
    expect(healthAnswer(vitals({}, {}, { state: 'stale', lag_us: null }))).toBe('With care: nothing new has arrived for a while.');
  });
  test('is no answer before there is a stream', () => expect(healthAnswer(vitals({}, { streams: 0, states: {} }))).toContain('Nothing is known yet'));
});

test('CPU time is a share of a core for each rank, or unknown', () => {
  expect(cpuShare(vitals())).toBeCloseTo(0.01);
  expect(cpuShare(vitals({ agent_sums: null }))).toBeNull();
});

describe('the way of the events', () => {
  test('has a figure at each station', () =>
    expect(pipeline(vitals()).map((one) => one.figure)).toEqual(['2,000 events/s', 'nothing', '0.4 s behind', '40× less', '1.2 s old']));
  test('warns where something was lost, and only there', () => {
    const lossy = pipeline(vitals({}, { gap_steps: 4, lossy_ranks: 1 }));
    expect(lossy.filter((one) => one.warns).map((one) => one.name)).toEqual(['lost']);
  });
  test('of an imported run there are calls, and no events to count', () => {
    const imported = vitals({ census: { ...census, verdict: 'unknown' } }, { rows: 0, size_bytes: 0, calls: 6624 }, { state: 'ended' });
    expect(station(imported, 'application')).toMatchObject({ figure: 'not on record', detail: '6,624 calls without their trace', warns: false });
  });
  test('a store elsewhere has no size, which is not 0', () =>
    expect(station(vitals({ storage: { trace_bytes: 1, stored_bytes: null } }), 'store')?.figure).toBe('elsewhere'));
  test('a store that is as large as the trace is not called less', () =>
    expect(station(vitals({ storage: { trace_bytes: 90_000, stored_bytes: 100_000 } }), 'store')).toMatchObject({ figure: 'small', detail: '100 kB kept' }));
});

test('what a stream lost in words', () => {
  expect(losses({ gap_steps: 0, losses: {} })).toBe('nothing');
  expect(losses({ gap_steps: 1, losses: { rows: 3 } })).toBe('1 step, 3 rows');
});

test('lines over time are differences of totals, and end where something is unknown', () => {
  const at = (second: number, rows: number, lag_us: number | null): Vital => ({
    time_us: second * 1e6,
    rows,
    gap_steps: 0,
    lag_us,
    spool_bytes: 5,
    pss_bytes: 7,
  });
  const drawn = strips([at(0, 100, 1), at(2, 300, null), at(3, 300, 9)]);
  expect(drawn.times_us).toEqual([2e6, 3e6]);
  expect(drawn.strips.map((one) => one.values)).toEqual([
    [100, 0],
    [null, 9],
    [5, 5],
    [7, 7],
  ]);
});

test('the pace of a stored run is that of all its programs', () => {
  const sum = (step: number, start: number, end: number, calls: number) => ({ step, start_us: start * 1e6, end_us: end * 1e6, calls });
  const drawn = callStrip([sum(1, 12, 14, 10), sum(0, 10, 12, 30), sum(0, 11, 13, 30), sum(2, 0, 0, 0)]);
  expect(drawn.times_us).toEqual([13e6, 14e6]);
  expect(drawn.strips[0]?.values).toEqual([20, 5]);
});

test.each([
  [36, 0],
  [300, 0],
  [301, 1],
  [3600, 2],
  [1e9, 4],
])('of %i steps level %i is fine enough', (steps, level) => expect(levelFor(steps, 300)).toBe(level));

test('settings have names, and units', () => {
  const config = {
    detector: 'robust',
    threshold: null,
    min_anomaly_us: 1000,
    lockstep: true,
    period_us: 1e6,
    thresholds: [['MPI_*', 8]],
  } as unknown as Run['config'];
  const named = new Map(settings(config));
  expect(named.get('threshold')).toBe('the default');
  expect(named.get('least difference flagged')).toBe('1 ms');
  expect(named.get('thresholds of functions')).toBe('MPI_*: 8');
  expect(named.get('streams wait for each other')).toBe('yes');
});

describe('rows of which the same is told', () => {
  test('are one row, in the place of the first of them', () => {
    const rows = [
      { name: '0:0', calls: 5 },
      { name: '0:1', calls: 7 },
      { name: '0:2', calls: 5 },
    ];
    const found = together(rows, ({ calls }) => [String(calls)]);
    expect(found.map((some) => some.map(({ name }) => name))).toEqual([['0:0', '0:2'], ['0:1']]);
  });

  test('have their names, of many the first and the last', () => {
    expect(namesText(['c1'], 'node')).toBe('c1');
    expect(namesText(['c1', 'c3'], 'node')).toBe('2 nodes: c1, c3');
    expect(namesText(['c1', 'c2', 'c3', 'c4', 'c5', 'c6'], 'node')).toBe('6 nodes: c1, …, c6');
  });
});
