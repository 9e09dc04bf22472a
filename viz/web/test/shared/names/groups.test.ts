import { expect, test } from 'vitest';
import { groupOf } from '../../../src/shared/names/groups';

test.each([
  ['MPI_Send()', 'mpi'],
  ['MPI Collective Sync', 'mpi'],
  ['relax_block [{heat2d.c} {47,0}]', 'app'],
  ['cudaLaunchKernel', 'gpu'],
  ['fwrite', 'io'],
  ['.TAU application', 'runtime'],
  ['addr=<55aa>', 'other'],
  ['MPImatrix_fill', 'app'],
])('%s is %s', (name, group) => expect(groupOf(name)).toBe(group));
