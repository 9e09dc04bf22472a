import { expect, test } from 'vitest';
import { linesIn, partsIn, selectionAnswer } from '../../../src/timeline/model/selection';
import type { Scene } from '../../../src/timeline/model/lines';
import type { SelectionAnswer, StepTimes } from '../../../src/shared/api/types';

const lanes = [
  { spans: { rank: '0:0' }, thread: 0, y: 0, height: 40 },
  { spans: { rank: '0:0' }, thread: 3, y: 48, height: 20 },
  { spans: { rank: '0:7' }, thread: 0, y: 76, height: 20 },
] as unknown as Scene['lanes'];

test('a box has the lines that it touches, and none where it has all', () => {
  expect(linesIn({ lanes }, 60, 80)).toEqual(['0:0/3', '0:7/0']);
  expect(linesIn({ lanes }, -5, 500)).toEqual([]);
});

const found: SelectionAnswer = {
  ok: true,
  from_us: 1_000_000,
  to_us: 2_000_000,
  lines: [
    { rank: '0:0', thread: 0, known_us: 1_000_000 },
    { rank: '0:0', thread: 3, known_us: 1_000_000 },
  ],
  functions: [{ function: 'relax', calls: 3, inclusive_us: 900_000, exclusive_us: 500_000, anomalies: 1 }],
  merged_us: 0,
};

test('the sentence on a selection says how much of its time is known', () => {
  expect(selectionAnswer(found)).toBe('1 s of 2 threads: most in relax, 500 ms of its own, 25 %.');
  const part = { ...found, lines: found.lines.map((line) => ({ ...line, known_us: 250_000 })), merged_us: 2 };
  expect(selectionAnswer(part)).toBe(
    '1 s of 2 threads: most in relax, 500 ms of its own, 100 % of what is kept. Calls of 25 % of this time are kept; the others were analysed, not kept. Calls shorter than 2 µs count as their longest neighbour.',
  );
  expect(selectionAnswer({ ...found, functions: [] })).toBe('No call of this time is kept: normal calls were analysed, not kept.');
});

test('of steps that reach into the time, the part within it counts', () => {
  const time = { step: 0, computing_us: 300, mpi_us: 100, io_us: 0, gpu_us: 0, asleep_us: 0, waiting_us: 0, is_sampled: true };
  const steps = {
    is_sampled: true,
    length: 1,
    times: [
      { ...time, start_us: 0, end_us: 100 },
      { ...time, start_us: 100, end_us: 200, mpi_us: 900 },
    ],
  } as unknown as StepTimes;
  expect(partsIn([steps], [0, 150])).toBe('Threads of these ranks, all calls: computing 45 %, MPI 55 %.');
  expect(partsIn([steps], [500, 600])).toBe('');
});
