import { expect, test } from 'vitest';
import { filterQuery, filtersOf, filterWords, formatTimes, parseTimes, UNFILTERED } from '../../../src/shared/asking/filters';
import { FIRST_VIEW, type View } from '../../../src/shared/address/model/view';

const all: View = {
  ...FIRST_VIEW,
  rank: '1:12',
  node: 'c0*',
  thread: 0,
  steps: [80, 90],
  times: [86_000_000, 86_600_000],
  function: 'MPI_*',
  severity_us: 5000,
  score: 6.5,
  gpu: false,
  text: 'halo exchange',
  incident: 'I12',
  label: 'anomaly',
};

test('without filters all labels are wanted', () => {
  expect(filtersOf(FIRST_VIEW)).toEqual([]);
  expect(filterQuery(FIRST_VIEW, 7)).toEqual([['label', 'any']]);
  expect(filterWords(FIRST_VIEW)).toEqual(['--label', 'any']);
});

test('every filter reads as a chip', () => {
  expect(filtersOf(all).map((filter) => filter.text(all, 2))).toEqual([
    'rank 1:12',
    'node c0*',
    'thread 0',
    'step 80..90',
    'time +00:01:26.000 to +00:01:26.600',
    'function MPI_*',
    'severity ≥ 5 ms',
    'score ≥ 6.5',
    'not on a GPU',
    'text halo exchange',
    'incident I12',
    'anomalies only',
  ]);
});

test('the server is asked for all of them, with times since the epoch', () => {
  expect(Object.fromEntries(filterQuery(all, 1_700_000_000_000_000))).toEqual({
    rank: '1:12',
    node: 'c0*',
    thread: '0',
    step_min: '80',
    step_max: '90',
    time_min_us: '1700000086000000',
    time_max_us: '1700000086600000',
    function: 'MPI_*',
    min_severity_us: '5000',
    min_score: '6.5',
    is_gpu: 'false',
    text: 'halo exchange',
    incident: 'I12',
    label: 'anomaly',
  });
});

test('the command has them too', () => {
  expect(filterWords(all).join(' ')).toBe(
    '--program 1 --rank 12 --node c0* --thread 0 --step 80:90 --time 86000000us:86600000us --function MPI_* --min-severity 5000us --min-score 6.5 --no-gpu --text halo exchange --incident I12 --label anomaly',
  );
  expect(filterWords({ ...FIRST_VIEW, gpu: true, steps: [7, 7] })).toEqual(['--step', '7', '--gpu', '--label', 'any']);
});

test('several ranks that follow each other are one filter', () => {
  const several: View = { ...FIRST_VIEW, rank: '1:16..31' };
  expect(filtersOf(several).map((filter) => [filter.text(several, 1), filter.text(several, 2)])).toEqual([['ranks 16..31', 'ranks 1:16..31']]);
  expect(Object.fromEntries(filterQuery(several, 0))).toEqual({ program: '1', rank_min: '16', rank_max: '31', label: 'any' });
  expect(filterWords(several)).toEqual(['--program', '1', '--rank', '16:31', '--label', 'any']);
});

test('each can be dropped, and all at once', () => {
  for (const filter of filtersOf(all)) expect(filtersOf({ ...all, ...filter.dropped })).toHaveLength(11);
  expect({ ...all, ...UNFILTERED }).toEqual(FIRST_VIEW);
});

test('times are typed in seconds, or with units', () => {
  expect(parseTimes('86..86.6')).toEqual([86_000_000, 86_600_000]);
  expect(parseTimes(' 500 ms .. 2s')).toEqual([500_000, 2_000_000]);
  expect(formatTimes([86_000_000, 86_600_000])).toBe('86..86.6');
  expect(formatTimes(null)).toBe('');
  for (const text of ['86', '2..1', '1..2..3', 'soon..late', '..']) expect(parseTimes(text)).toBeNull();
});
