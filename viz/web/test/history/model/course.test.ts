import { describe, expect, test } from 'vitest';
import { historyAnswer, ordered, sidesOf, stretchesOf, valueText } from '../../../src/history/model/course';
import type { HistoryAnswer, SeriesChange, SeriesHistory, SeriesQuantity } from '../../../src/shared/api/types';

const quantity = (name: string, values: (number | null)[]): SeriesQuantity => ({ name, label: name, is_time: true, values });
const change = (at: number, ...names: string[]): SeriesChange => ({
  at,
  run: `run-${at}`,
  before: `run-${at - 1}`,
  started_us: at,
  is_slower: true,
  quantities: names.map((name) => ({ name, label: name, before: 1, after: 2, effect: 1, chance: 1e-6 })),
  version: [],
  nodes: [],
  reverted_at: null,
  sentence: 'Since run-4 (2026-01-05): wall time +100 % (1 s → 2 s); with it io +90 %.',
});
const history: SeriesHistory = {
  series: 'heat2d',
  title: '4 ranks',
  runs: Array.from({ length: 8 }, (_, at) => ({
    id: String(at),
    name: `run-${at}`,
    folder: `/runs/run-${at}`,
    started_us: at,
    is_good: at !== 2,
    version: [],
  })),
  quantities: [quantity('io', [1, 1, 1, 1, 1, 1, 1, 1]), quantity('wall', [1, 3, null, 2, 5, 5, 6, 6])],
  changes: [change(4, 'wall')],
  nodes: [],
};
const found = (own: number | null): HistoryAnswer => ({ ok: true, history, this: own, folders: history.runs.map((run) => run.name), why: '' });

describe('the course of a quantity', () => {
  test('has a stretch between two changes of it', () => {
    expect(stretchesOf(history, history.quantities[1] as SeriesQuantity)).toEqual([
      { from: 0, to: 4, middle: 2 },
      { from: 4, to: 8, middle: 5.5 },
    ]);
    expect(stretchesOf(history, quantity('io', [null, null]))).toEqual([]);
  });
  test('stands first where it changed', () => expect(ordered(history).map((one) => one.name)).toEqual(['wall', 'io']));
  test('has values in their unit', () => {
    expect(valueText(quantity('wall', []), 1500)).toBe('1.5 ms');
    expect(valueText(quantity('wall', []), null)).toBe('not known');
  });
});

describe('the comparison around a change', () => {
  const sides = (own: number | null) => sidesOf(found(own), history.changes[0] as SeriesChange);
  test('is of good runs before it with this one and others after it', () => expect(sides(6)).toEqual({ compare: 'run-0/run-1/run-3', also: 'run-4/run-5' }));
  test('is of runs after it where this one is before', () => expect(sides(3)).toEqual({ compare: 'run-4/run-5/run-6', also: 'run-0/run-1' }));
  test('is on the page of a run after it where this one is beyond the next change', () => {
    const later = { ...history, changes: [change(4, 'wall'), change(6, 'wall')] };
    expect(sidesOf({ ...found(7), history: later }, later.changes[0] as SeriesChange)).toEqual({ run: '4', compare: 'run-0/run-1/run-3', also: 'run-5' });
  });
  test('is none where this run is not there', () => expect(sides(null)).toBeNull());
});

test('the first sentence counts runs and changes', () => {
  expect(historyAnswer(history)).toBe('8 runs of heat2d: 1 change, the last since run-4 (2026-01-05): wall time +100 % (1 s → 2 s).');
  expect(historyAnswer({ ...history, changes: [] })).toContain('nothing has changed');
});
