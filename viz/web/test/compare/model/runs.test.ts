import { expect, test } from 'vitest';
import { lengthOf, runsAnswer, stateOf } from '../../../src/compare/model/runs';
import type { ListedRun } from '../../../src/shared/api/types';

const run: ListedRun = {
  folder: 'heat',
  id: 'a',
  name: 'heat',
  state: 'finished',
  started_us: 1e15,
  ended_us: 1e15 + 4e6,
  is_this: false,
  path: '/runs/heat',
  exit_code: 0,
  ranks: 4,
  anomalies: 9,
  loss: 0,
};

test('how a run ended, and how long it took', () => {
  expect(stateOf(run)).toBe('finished, exit 0');
  expect(stateOf({ ...run, exit_code: null })).toBe('finished');
  expect(stateOf({ ...run, state: 'running', exit_code: null })).toBe('running');
  expect(lengthOf(run)).toBe('4 s');
  expect(lengthOf({ ...run, ended_us: run.started_us + 3_700e6 })).toBe('1:01:40');
  expect(lengthOf({ ...run, ended_us: 0 })).toBe('');
});

test('the list says how many there are beside this one', () => {
  const own = { ...run, is_this: true };
  expect(runsAnswer([own], 'heat')).toBe('heat is the only run in its folder.');
  expect(runsAnswer([own, run], 'heat')).toBe('1 other run can be compared with heat.');
  expect(runsAnswer([own, run, run], 'heat')).toBe('2 other runs can be compared with heat.');
});
