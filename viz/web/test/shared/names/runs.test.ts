import { expect, test } from 'vitest';
import { comparisonOf, folderAnswer, folderNews, found, lengthOf, runsAnswer, stateOf, toggled, totalsOf } from '../../../src/shared/names/runs';
import type { ListedRun } from '../../../src/shared/api/types';

const run: ListedRun = {
  folder: 'heat',
  id: 'a',
  name: 'heat',
  address: 'heat',
  program: 'heat2d',
  command: ['mpirun', '-n', '4', './heat2d'],
  state: 'finished',
  started_us: 1e15,
  ended_us: 1e15 + 4e6,
  is_this: false,
  path: '/runs/heat',
  duration_us: 4e6,
  exit_code: 0,
  ranks: 4,
  lost_us: 2e6,
  bound: 'exact',
  stored_bytes: 1e5,
  anomalies: 9,
  loss: 0,
};

test('how a run ended, and how long it took', () => {
  expect(stateOf(run)).toBe('finished, exit 0');
  expect(stateOf({ ...run, exit_code: null })).toBe('finished');
  expect(stateOf({ ...run, state: 'running', exit_code: null })).toBe('running');
  expect(lengthOf(run)).toBe('4 s');
  expect(lengthOf({ ...run, duration_us: 3_700e6 })).toBe('1 h 2 min');
  expect(lengthOf({ ...run, duration_us: null })).toBe('');
});

test('what is estimated, the least, not known, and not there yet look different from what is exact', () => {
  expect(totalsOf(run)).toEqual(['4', '2 s', '9']);
  expect((['estimated', 'at least'] as const).map((bound) => totalsOf({ ...run, bound })[1])).toEqual(['≈ 2 s', '≥ 2 s']);
  expect(totalsOf({ ...run, ranks: null, lost_us: null, anomalies: null })).toEqual(['unknown', 'unknown', 'unknown']);
  expect(totalsOf({ ...run, ranks: 0, lost_us: 0, anomalies: 0 })).toEqual(['0', '–', '–']);
});

test('the list says how many there are beside this one', () => {
  const own = { ...run, is_this: true };
  expect(runsAnswer([own], 'heat')).toBe('heat is the only run in its folder.');
  expect(runsAnswer([own, run], 'heat')).toBe('1 other run can be compared with heat.');
  expect(runsAnswer([own, run, run], 'heat')).toBe('2 other runs can be compared with heat.');
});

test('the list of a folder says how many there are, and go on', () => {
  const live = { ...run, state: 'running' };
  expect(folderAnswer([])).toBe('There are no runs here yet.');
  expect(folderAnswer([run])).toBe('1 run; none is running.');
  expect(folderAnswer([live, run, run])).toBe('3 runs; 1 is running.');
  expect(['', 'x', 'y', 'z'].map((text, left) => folderNews([run, run], left, text))).toEqual([
    '2 runs; none is running.',
    '2 runs; none is running. 1 matches.',
    '2 runs; none is running. 2 match.',
    '2 runs; none is running. 3 match.',
  ]);
  expect(folderNews([run], 0, 'x')).toBe('1 run; none is running. None match.');
});

test('a filter is words, each of which is somewhere in what is known of a run', () => {
  const failed = { ...run, folder: 'b', name: 'second', exit_code: 1 };
  expect(found([run, failed], 'HEAT2D exit 1')).toEqual([failed]);
  expect(found([{ ...run, name: 'heat 1' }, failed], 'exit 1')).toEqual([failed]);
  expect(found([run, failed], ' ')).toEqual([run, failed]);
  expect(found([run, failed], 'nothing')).toEqual([]);
});

test('two runs are ticked at most, and the later one is compared with the earlier', () => {
  expect(toggled(['a', 'b'], 'a')).toEqual(['b']);
  expect(toggled(['a', 'b'], 'c')).toEqual(['b', 'c']);
  const later = { ...run, folder: 'b', address: 'after 2', started_us: run.started_us + 1 };
  expect(comparisonOf([later, run], ['b', 'heat'])).toBe('r/after%202/compare/heat');
  expect(comparisonOf([later, run], ['b', 'gone'])).toBe('');
});
