import { describe, expect, test } from 'vitest';
import { anomaliesBy, callAt, callLines, callsAnswer, idAt, indexOf, type Wording } from '../../../src/calls/model/callpoints';
import { FIRST_VIEW, type View } from '../../../src/shared/address/model/view';
import { pointsOf } from './points';

const ZERO_US = 1_700_000_000_000_000;
const WORDING: Wording = { zero_us: ZERO_US, programs: 1, metric: 'exclusive', scoreUnit: 'σ' };

const SLOW = {
  function: 'MD_NEWTON [{newton.F} {12,0}]',
  caller: 'MD_MAIN',
  rank: '0:1164',
  step: 87,
  begin_step: 86,
  begin_row: 225,
  entry_us: ZERO_US + 86_123_000,
  inclusive_us: 350_000,
  exclusive_us: 312_000,
  expected_us: 100_000,
  severity_us: 212_000,
  score: 18.7,
  children: 7,
  messages_count: 12,
  is_anomaly: true,
};
const FAST = {
  ...SLOW,
  begin_row: 300,
  exclusive_us: 10_000,
  severity_us: 0,
  score: 6,
  caller: null,
  is_gpu: true,
  is_open: true,
  children: 1,
  messages_count: 1,
};
const USUAL = { ...SLOW, begin_row: 7, exclusive_us: 100_000, severity_us: 0, score: 0.1, is_anomaly: false };
const points = pointsOf([SLOW, FAST, USUAL], { analysed: 41_212 });

describe('one of many', () => {
  test('calls are found by their id', () => {
    expect([0, 1, 2].map((at) => idAt(points, at))).toEqual(['0:1164:86:225', '0:1164:86:300', '0:1164:86:7']);
    expect(['0:1164:86:300', '0:1164:86:8', '0:1163:86:7'].map((id) => indexOf(points, id))).toEqual([1, -1, -1]);
  });

  test('all of its fields', () =>
    expect(callAt(points, 1)).toEqual({
      id: '0:1164:86:300',
      program: 0,
      rank: 1164,
      node: 'node1164',
      thread: 0,
      function: SLOW.function,
      caller: null,
      label: 'anomaly',
      step: 87,
      entry_us: FAST.entry_us,
      exit_us: 0,
      inclusive_us: 350_000,
      exclusive_us: 10_000,
      expected_us: 100_000,
      severity_us: 0,
      score: 6,
      children: 1,
      messages_count: 1,
      is_gpu: true,
    }));

  test('anomalies in the order of the list', () => {
    const four = pointsOf([3, 1, 2, 9].map((score, at) => ({ score, severity_us: 10 - at, is_anomaly: at < 3 })));
    expect(anomaliesBy(four, 'score', true)).toEqual([0, 2, 1]);
    expect(anomaliesBy(four, 'severity_us', false)).toEqual([2, 1, 0]);
  });
});

describe('in words', () => {
  test('what, how much, expected, judged how, where, when, in what company', () =>
    expect(callLines(callAt(points, 0), WORDING)).toEqual([
      SLOW.function,
      'inclusive 350 ms, exclusive 312 ms',
      'expected exclusive 100 ms, 3.1×',
      '▲ anomaly: 212 ms lost, score 18.7 σ',
      'rank 1164, thread 0, node node1164, step 87',
      '+00:01:26.123 to +00:01:26.473; 2023-11-14 22:14:46.123 Z',
      'called by MD_MAIN, 7 children, 12 messages',
    ]));

  test('faster, on a GPU, not ended, of unknown caller', () =>
    expect(callLines(callAt(points, 1), { ...WORDING, programs: 2, scoreUnit: '' }).slice(3)).toEqual([
      '▼ anomaly: 0 µs lost, score 6',
      'rank 0:1164, thread 0, node node1164, on a GPU, step 87',
      '+00:01:26.123 to now: it has not ended; 2023-11-14 22:14:46.123 Z',
      'caller unknown, 1 child, 1 message',
    ]));

  test('a normal call', () => expect(callLines(callAt(points, 2), WORDING)[3]).toBe('○ normal, score 0.1 σ'));
});

describe('the answer', () => {
  const view: View = { ...FIRST_VIEW, rank: '0:1164', steps: [86, 86] };

  test('what is looked at, how much is abnormal, kept and analysed', () => {
    expect(callsAnswer(points, view, 1)).toBe('Rank 1164, step 86: 2 anomalies, 3 kept of 41,212 analysed; worst MD_NEWTON, 212 ms lost.');
    expect(callsAnswer({ ...points, analysed: null }, { ...FIRST_VIEW, severity_us: 5000 }, 1)).toBe(
      'Severity ≥ 5 ms: 2 anomalies, 3 kept; worst MD_NEWTON, 212 ms lost.',
    );
  });

  test('of one label', () => {
    const two = pointsOf([SLOW, FAST], { analysed: 9 });
    expect(callsAnswer(two, { ...view, label: 'anomaly' }, 2)).toBe('Rank 0:1164, step 86: 2 anomalies of 9 analysed; worst MD_NEWTON, 212 ms lost.');
    const one = pointsOf([USUAL], { analysed: 9 });
    expect(callsAnswer(one, { ...FIRST_VIEW, label: 'normal' }, 1)).toBe('The whole run: 1 normal kept of 9 analysed.');
    expect(callsAnswer(pointsOf([], { analysed: 9 }), view, 1)).toBe('Rank 1164, step 86: no call kept of 9 analysed.');
  });
});
