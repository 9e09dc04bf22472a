/** An incident as tests need it. */

import type { Incident, Waited } from '../../../src/shared/api/types';

export const waited = (rank: number, for_call_id: string, more: Partial<Waited> = {}): Waited => ({
  call_id: `0:${rank}:1:${rank}`,
  rank,
  operation: 'MPI_Recv()',
  lost_us: 100_000 - rank,
  entry_us: 1_000_000,
  exit_us: 1_100_000,
  for_call_id,
  kind: 'late sender',
  ...more,
});

export const ORIGIN = '0:3:1:3';

export const incidentOf = (held: Waited[], more: Partial<Incident> = {}): Incident => ({
  number: 12,
  program: 0,
  kind: 'own code',
  rank: 3,
  function: 'compute',
  call_id: ORIGIN,
  node: 'c042',
  entry_us: 1_000_000,
  exit_us: 1_100_000,
  runtime_us: 100_000,
  expected_us: 1_000,
  excess_us: 99_000,
  is_leaf: true,
  begin_us: 1_000_000,
  end_us: 1_200_000,
  cost_us: 400_000,
  parts: [],
  waited: held,
  ...more,
});
