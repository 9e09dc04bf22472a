import { describe, expect, test } from 'vitest';
import { callAnswer, incidentsAnswer, overviewAnswer } from '../../../src/shared/names/answer';
import type { Answer, CallRecord, IncidentsAnswer, IncidentSummary, Run, Status } from '../../../src/shared/api/types';

const status: Status = {
  state: 'live',
  sentence: '',
  version: 1,
  zero_us: 0,
  clock_us: 0,
  lag_us: null,
  last_step: 12,
  ranks: 128,
  ranks_reporting: 128,
  anomalies: 0,
  loss: 0,
  losses: {},
};
const none: Answer = {
  anomalies: 0,
  ranks_with_anomalies: 0,
  functions: 71,
  functions_judged: 59,
  worst_function: null,
  worst_severity_us: 0,
  worst_call: null,
  worst_rank: null,
};
const run = (answer: Partial<Answer>, more: Partial<Status> = {}, programs: Record<string, string> = { 0: 'heat' }): Run =>
  ({ status: { ...status, ...more }, answer: { ...none, ...answer }, programs }) as Run;

describe('overview', () => {
  const found = { anomalies: 41, ranks_with_anomalies: 4, worst_function: 'relax_block [{heat2d.c} {47,0}]', worst_severity_us: 812_000, worst_rank: '0:1' };
  test('what was found, where, how bad', () => {
    expect(overviewAnswer(run(found))).toBe('41 anomalies on 4 ranks; most time lost in relax_block: 812 ms, worst call on rank 1.');
  });
  test('a workflow names the program with the rank', () => {
    expect(overviewAnswer(run(found, {}, { 0: 'a', 1: 'b' }))).toContain('on rank 0:1.');
  });
  test('one is one', () => expect(overviewAnswer(run({ ...found, anomalies: 1, ranks_with_anomalies: 1 }))).toContain('1 anomaly on 1 rank;'));
  test('nothing yet, nothing at all, and nothing known differ', () => {
    expect(overviewAnswer(run({}))).toBe('No anomalies yet. 128/128 ranks report; 59 of 71 functions can be judged.');
    expect(overviewAnswer(run({}, { state: 'ended' }))).toMatch(/^No anomalies\. /);
    expect(overviewAnswer(run({}, { last_step: null }))).toBe('Waiting for the first analysed step.');
  });
});

describe('incidents', () => {
  const one = { id: 'I3', program: 0, rank: 2, function: 'checkpoint [{heat2d.c} {56,0}]', cost_us: 990_000 } as IncidentSummary;
  const found = (incidents: IncidentSummary[], recurrences: IncidentsAnswer['recurrences'] = []): IncidentsAnswer => ({
    ok: true,
    incidents,
    recurrences,
    nodes: [],
    next: null,
    total: 12 * incidents.length,
    cost_us: 3_200_000 * incidents.length,
  });
  const unknown = { total_us: null, rank: null, function: null };
  test('how many, what they cost, and the worst', () =>
    expect(incidentsAnswer(found([one]), 1, unknown)).toBe('12 incidents lost 3.2 s; the worst: checkpoint on rank 2, 990 ms.'));
  test('its share of the whole, and because of which function and rank', () => {
    const whole = { total_us: 32_000_000, rank: { key: '0:3', lost_us: 2_000_000 }, function: { name: 'relax_block', lost_us: 1_500_000 } };
    expect(incidentsAnswer(found([one]), 1, whole)).toBe(
      '12 incidents lost 3.2 s (10 %), most because of relax_block (1.5 s) and rank 3 (2 s); the worst: checkpoint on rank 2, 990 ms.',
    );
    expect(incidentsAnswer({ ...found([one]), total: 1 }, 1, whole)).toBe('1 incident lost 3.2 s (10 %): checkpoint on rank 2.');
  });
  test('a node that cost more than all incidents comes first', () => {
    const nodes = [{ node: 'n1', kind: 'foreign load', sentence: '', cost_us: 16_000_000, begin_us: 0 }];
    expect(incidentsAnswer({ ...found([one]), nodes }, 1, { ...unknown, total_us: 32_000_000 })).toBe(
      'Foreign load on n1: its threads waited 16 s (50 %) for a core. 12 incidents lost 3.2 s (10 %); the worst: checkpoint on rank 2, 990 ms.',
    );
  });
  test('an origin that is not on record', () =>
    expect(incidentsAnswer(found([{ ...one, function: '', kind: 'not explained', rank: null }]), 1, unknown)).toContain(
      '; the worst: a call that is not on record, ',
    ));
  test('what recurs counts', () => {
    const recurring = { id: 'R1', sentence: '', recurrence: { cost_us: 500, kind: 'drift', function: 'step' } } as IncidentsAnswer['recurrences'][number];
    expect(incidentsAnswer(found([], [recurring]), 1, unknown)).toBe('1 recurring finding lost 500 µs, most by a recurring finding, drift of step: 500 µs.');
    expect(incidentsAnswer(found([one], [recurring]), 1, unknown)).toContain('; the worst: checkpoint on rank 2, ');
  });
});

describe('call', () => {
  const record = {
    label: 'anomaly',
    function: 'relax_block [{heat2d.c} {47,0}]',
    program: 0,
    rank: 1,
    exclusive_us: 312_000,
    inclusive_us: 400_000,
    expected_us: 100_000,
    severity_us: 212_000,
    children: 2,
  } as CallRecord;
  test('what, how much, against what was expected', () => {
    expect(callAnswer(record, 'exclusive', 1)).toBe('relax_block on rank 1 spent 312 ms in its own code, 3.1× its usual 100 ms: 212 ms lost.');
    expect(callAnswer({ ...record, children: 0 }, 'exclusive', 1)).toBe('relax_block on rank 1 took 312 ms, 3.1× its usual 100 ms: 212 ms lost.');
    expect(callAnswer(record, 'inclusive', 1)).toBe('relax_block on rank 1 took 400 ms, 4× its usual 100 ms: 212 ms lost.');
  });
  test('no factor that nobody can imagine', () =>
    expect(callAnswer({ ...record, expected_us: 3 }, 'exclusive', 1)).toBe('relax_block on rank 1 spent 312 ms in its own code instead of 3 µs: 212 ms lost.'));
  test('no ratio without an expectation', () => expect(callAnswer({ ...record, expected_us: 0 }, 'exclusive', 1)).not.toContain('×'));
  test('a call that had not ended when it was recorded, whether its run goes on or not', () =>
    expect(callAnswer({ ...record, exit_us: 0 }, 'exclusive', 1)).toBe(
      'relax_block on rank 1 had not ended after 400 ms, 4× its usual 100 ms: 212 ms lost by then.',
    ));
  test('a normal call', () => expect(callAnswer({ ...record, label: 'normal' }, 'exclusive', 1)).toMatch(/a normal call\.$/));
});
