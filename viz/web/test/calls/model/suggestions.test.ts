import { expect, test } from 'vitest';
import { patternOf, suggested } from '../../../src/calls/model/suggestions';
import type { FunctionRow } from '../../../src/shared/api/types';

const row = (name: string, anomalies: number, severity_us: number): FunctionRow => ({ name, anomalies, severity_us, calls: 40 }) as FunctionRow;
const ROWS = [row('MPI_Recv()', 0, 0), row('MPI_Waitall()', 3, 900), row('my_mpi_wrapper', 1, 5000), row('relax(double *)', 2, 10)];

const names = (text: string): string[] => suggested(text, ROWS).map((one) => one.name);

test('names that begin so come first, then those that lost most time', () => {
  expect(names('mpi')).toEqual(['MPI_Waitall()', 'MPI_Recv()', 'my_mpi_wrapper']);
  expect(names('')).toEqual([]);
});

test('patterns fit whole names, all else is literal', () => {
  expect(names('MPI_*')).toEqual(['MPI_Waitall()', 'MPI_Recv()']);
  expect(names('()')).toEqual(['MPI_Waitall()', 'MPI_Recv()']);
  expect(names('*e *')).toEqual(['relax(double *)']);
});

test('each says how abnormal it is', () => expect(suggested('MPI', ROWS).map((one) => one.detail)).toEqual(['▲ 3, 900 µs lost', '40 calls', '▲ 1, 5 ms lost']));

test('what is no name and no pattern is a part of a name', () => {
  expect(patternOf(' relax ', ['relax(double *)'])).toBe('*relax*');
  expect(patternOf('MPI_*', [])).toBe('MPI_*');
  expect(patternOf('MPI_Recv()', ['MPI_Recv()'])).toBe('MPI_Recv()');
  expect(patternOf('', [])).toBe('');
});
