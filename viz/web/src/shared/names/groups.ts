/** Groups of functions by kind of work, each with a colour. */

import type { Group } from '../charts/model/tokens';

const GROUPS: readonly [Group, RegExp][] = [
  ['mpi', /^P?MPI[_ ]/],
  ['gpu', /^(?:cuda|hip|cu[A-Z]|OpenACC|Kokkos::|void Kokkos)|kernel_launch/],
  ['io', /(?:^|_)(?:f?read|f?write|pread|pwrite|open|close|fsync|lseek)(?:64|v)?(?:\(\))?$|^(?:IO::|BP\d|SST|adios)/i],
  ['runtime', /^(?:\.TAU|taupreload|\[PTHREAD\]|pthread_|OpenMP|omp_)/],
  ['other', /^(?:addr=|UNRESOLVED)/],
];

/** Group of a function, by its name. */
export function groupOf(name: string): Group {
  return GROUPS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'app';
}
