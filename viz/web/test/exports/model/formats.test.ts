import { expect, test } from 'vitest';
import { exportCommand } from '../../../src/exports/model/formats';
import { FIRST_VIEW } from '../../../src/shared/address/model/view';

test('the same export in the terminal', () => {
  expect(exportCommand('/runs/heat', { name: 'perfetto', purpose: '', ending: 'pftrace', is_installed: true }, FIRST_VIEW)).toBe(
    'chimbuko export /runs/heat --format perfetto --label any -o heat.pftrace',
  );
  expect(
    exportCommand('/runs/my heat', { name: 'parquet', purpose: '', ending: '', is_installed: true }, { ...FIRST_VIEW, rank: '0:3', label: 'anomaly' }),
  ).toBe("chimbuko export '/runs/my heat' --format parquet --program 0 --rank 3 --label anomaly -o 'my heat-parquet'");
});
