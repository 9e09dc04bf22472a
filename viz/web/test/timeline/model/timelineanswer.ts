/** What the server says of a rank, for tests of what is made of it. */

import type { TimelineAnswer } from '../../../src/shared/api/types';

export const answer: TimelineAnswer = {
  source: 'store',
  is_recorded: false,
  from_us: 0,
  to_us: 1000,
  extent_us: [0, 1000],
  column_us: 4,
  functions: ['main', 'MPI_Send()', 'relax'],
  threads: [
    {
      thread: 0,
      is_gpu: false,
      known_us: [
        [100, 400],
        [600, 800],
      ],
    },
  ],
  rows: [
    { thread: 0, depth: 0, begins_us: [10], runtimes_us: [980], exclusives_us: [-1], functions: [0], steps: [0], rows: [1], counts: [1], flags: [4] },
    {
      thread: 0,
      depth: 1,
      begins_us: [100, 50, 100, 400],
      runtimes_us: [40, 100, 3, 100],
      exclusives_us: [40, 90, 3, 100],
      functions: [1, 2, 1, 2],
      steps: [1, 1, 1, 2],
      rows: [7, 2, 4, -10],
      counts: [1, 1, 5, 1],
      flags: [0, 3, 16, 0],
    },
  ],
  links: {
    kinds: [0, 1],
    times_us: [120, 700],
    threads: [0, 0],
    depths: [1, 1],
    other_us: [130, -1],
    other_ranks: [2, 3],
    other_threads: [0, -1],
    other_depths: [0, -1],
    tags: [9, 9],
    sizes_bytes: [8000, 16],
    counts: [1, 3],
  },
  judged: [
    {
      step: 1,
      row: 9,
      is_anomaly: true,
      thread: 0,
      depth: 1,
      function: 'relax',
      entry_us: 150,
      inclusive_us: 100,
      exclusive_us: 90,
      is_open: false,
      severity_us: 60,
      score: 8,
      expected_us: 30,
      children: 0,
      messages: 1,
    },
  ],
  lost_us: [[450, 500]],
  left_out: 0,
};
