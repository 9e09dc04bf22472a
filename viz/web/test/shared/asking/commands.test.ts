import { expect, test } from 'vitest';
import { compareCommand, exportCommand, queryCommand, quoted, showCommand } from '../../../src/shared/asking/commands';
import { FIRST_VIEW } from '../../../src/shared/address/model/view';

test('the table in the terminal', () => {
  expect(queryCommand('/runs/heat', FIRST_VIEW)).toBe('chimbuko query /runs/heat --label any --sort severity_us');
  const view = { ...FIRST_VIEW, function: 'MPI_*', rank: '0:3', severity_us: 5000, steps: [10, 20] as const, descending: false };
  expect(queryCommand('/runs/my heat', view)).toBe(
    "chimbuko query '/runs/my heat' --program 0 --rank 3 --step 10:20 --function 'MPI_*' --min-severity 5000us --label any --sort severity_us --ascending",
  );
  expect(queryCommand('r', { ...FIRST_VIEW, steps: [7, 7], label: 'anomaly', cursor: 'abc' })).toBe(
    'chimbuko query r --step 7 --label anomaly --sort severity_us --cursor abc',
  );
});

test('one call in the terminal', () => expect(showCommand('runs/heat', '0:1:30:1547')).toBe('chimbuko show runs/heat 0:1:30:1547'));

test('a comparison in the terminal', () => {
  expect(compareCommand('/runs/new', ['my old'], [])).toBe("chimbuko compare '/runs/my old' /runs/new");
  expect(compareCommand('/runs/new', ['a', 'b'], ['c'])).toBe('chimbuko compare --before /runs/a --before /runs/b --after /runs/new --after /runs/c');
});

test('words of a shell', () => {
  expect(quoted('plain-word_1.5')).toBe('plain-word_1.5');
  expect(quoted("it's")).toBe("'it'\\''s'");
  expect(quoted('')).toBe("''");
  expect(quoted('$(reboot)')).toBe("'$(reboot)'");
});

test('the same export in the terminal', () => {
  expect(exportCommand('/runs/heat', { name: 'perfetto', purpose: '', ending: 'pftrace', is_installed: true }, FIRST_VIEW)).toBe(
    'chimbuko export /runs/heat --format perfetto --label any -o heat.pftrace',
  );
  expect(
    exportCommand('/runs/my heat', { name: 'parquet', purpose: '', ending: '', is_installed: true }, { ...FIRST_VIEW, rank: '0:3', label: 'anomaly' }),
  ).toBe("chimbuko export '/runs/my heat' --format parquet --program 0 --rank 3 --label anomaly -o 'my heat-parquet'");
});
