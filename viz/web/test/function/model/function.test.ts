import { describe, expect, test } from 'vitest';
import { functionAnswer } from '../../../src/shared/names/answer';
import { treeRows } from '../../../src/function/model/calltree';
import { trendOf } from '../../../src/function/model/trend';
import { byWait } from '../../../src/call/model/waits';
import type { CallRecord, FunctionStatistics, PathNode, Total } from '../../../src/shared/api/types';

const node = (parent: number | null, name: string, calls = 0, severity_us = 0): PathNode => ({
  parent,
  program: 0,
  function: name,
  path: calls > 0 ? 1 : null,
  calls,
  exclusive_us: 0,
  exclusive: null,
  inclusive: null,
  anomalies: 0,
  severity_us,
});

describe('call tree', () => {
  test('callers above, of one caller the path that cost most first', () => {
    const nodes = [node(null, 'main'), node(0, 'setup'), node(1, 'f', 5, 10), node(0, 'loop'), node(3, 'f', 7, 90), node(4, 'f', 2, 0)];
    expect(treeRows(nodes, 'f').map((row) => [row.node.function, row.depth, row.isOwn, row.node.calls])).toEqual([
      ['main', 0, false, 0],
      ['loop', 1, false, 0],
      ['f', 2, true, 7],
      ['f', 3, true, 2],
      ['setup', 1, false, 0],
      ['f', 2, true, 5],
    ]);
  });

  test('no path, no row', () => expect(treeRows([], 'f')).toEqual([]));
});

const total = (step: number | null, start_us: number | null, anomalies: number): Total => ({
  program: null,
  rank: null,
  step,
  start_us,
  anomalies,
  severity_us: anomalies * 100,
  highest_severity_us: 100,
  highest_score: 5,
});

describe('trend', () => {
  test('a column for each step with anomalies, over all steps of the run', () => {
    const trend = trendOf({ totals: [total(3, null, 2), total(7, null, 1)], width_us: null, total: 2 }, 5e6, 9, 10e6);
    expect([trend.by, trend.first, trend.end, trend.width]).toEqual(['step', 0, 10, 1]);
    expect(trend.columns.map((column) => [column.at, column.step, column.anomalies, column.severity_us])).toEqual([
      [3, 3, 2, 200],
      [7, 7, 1, 100],
    ]);
  });

  test('intervals of time since the start of the run, which may begin before it', () => {
    const trend = trendOf({ totals: [total(null, 4e6, 2), total(null, 8e6, 1)], width_us: 2e6, total: 2 }, 5e6, 9, 4e6);
    expect([trend.by, trend.first, trend.end, trend.width]).toEqual(['time', -1e6, 5e6, 2e6]);
    expect(trend.columns.map((column) => [column.at, column.step])).toEqual([
      [-1e6, null],
      [3e6, null],
    ]);
  });
});

test('messages that were waited for longest come first, then what was sent', () => {
  const call = (id: string, entry_us: number) => ({ id, function: `f${id}`, entry_us, exit_us: 0, parent_id: '', depth: 0, is_anomaly: false });
  const message = (kind: string, time_us: number, call_id: string) => ({ kind, source: 1, destination: 2, tag: 3, size_bytes: 8, time_us, call_id });
  const record = {
    window: [call('a', 100), call('b', 500)],
    messages: [message('SEND', 110, 'a'), message('RECV', 520, 'b'), message('RECV', 400, 'a'), message('RECV', 600, 'gone')],
  };
  expect(byWait(record as unknown as CallRecord).map(({ place, wait_us }) => [place, wait_us])).toEqual([
    ['fa', 300],
    ['fb', 20],
    ['fa', null],
    ['gone', null],
  ]);
});

describe('the sentence of a function', () => {
  const found = { name: 'solve(int)', calls: 160_004, anomalies: 45, severity_us: 2.35e6, drift: 1.02 } as FunctionStatistics;

  test('how often, how much, where, and whether it drifts', () => {
    expect(functionAnswer(found, 4)).toBe(
      'solve: 45 of 160,004 calls abnormal (0.0281 %), 2.35 s lost in these on 4 ranks. Its calls take as long as at first.',
    );
    expect(functionAnswer({ ...found, drift: 1.31 }, null)).toBe(
      'solve: 45 of 160,004 calls abnormal (0.0281 %), 2.35 s lost in these. Its calls now take 1.3× as long as at first.',
    );
  });

  test('none was abnormal', () => {
    expect(functionAnswer({ ...found, anomalies: 0, drift: 0.5 }, 0)).toBe(
      'solve: none of 160,004 calls was abnormal. Its calls now take 0.5× as long as at first.',
    );
  });
});
