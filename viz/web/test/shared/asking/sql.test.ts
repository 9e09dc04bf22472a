import { expect, test } from 'vitest';
import { sqlCommand } from '../../../src/shared/asking/commands';
import { callSql, callsSql, functionSql, literal, pathsSql, ranksSql, trendSql, worstSql } from '../../../src/shared/asking/sql';
import { FIRST_VIEW } from '../../../src/shared/address/model/view';

// That they answer what the page shows is tested on a store, in tests/viz/evident/test_panel_sql.py.

test('texts cannot end their literal', () => {
  expect(literal("it's")).toBe("'it''s'");
  const subject = { program: 1, name: "f'; DROP TABLE calls; --" };
  for (const sql of [functionSql(subject), trendSql(subject, null), ranksSql(subject), worstSql(subject, 20), pathsSql(subject), callSql(subject.name)]) {
    expect(sql).toContain("'f''; DROP TABLE calls; --'");
    expect(sql.startsWith('SELECT') || sql.startsWith('WITH RECURSIVE')).toBe(true);
  }
});

test('all that limits calls is a condition', () => {
  const view = {
    ...FIRST_VIEW,
    label: 'anomaly',
    rank: '1:3',
    steps: [5, 9],
    function: 'MPI_*',
    severity_us: 2000,
    score: 4.5,
    thread: 2,
    gpu: false,
    times: [0, 1000],
  } as const;
  expect(callsSql(view, 50, 20)).toBe(
    'SELECT * FROM anomalies WHERE run_id = :run_id AND program = 1 AND rank = 3 AND thread = 2 AND step BETWEEN 5 AND 9 AND entry_us <= 1050 AND ' +
      "coalesce(exit_us, entry_us + inclusive_us) >= 50 AND (function = 'MPI_*' OR (function LIKE 'MPI\\_%' ESCAPE '\\' AND replace(function, 'MPI_', '') <> function AND " +
      "NOT EXISTS (SELECT 1 FROM functions WHERE run = :run AND name = 'MPI_*'))) AND severity_us >= 2000 AND score >= 4.5 AND NOT is_gpu ORDER BY severity_us DESC LIMIT 20",
  );
  expect(callsSql({ ...FIRST_VIEW, descending: false }, 0, 5)).toBe(
    'SELECT * FROM anomalies WHERE run_id = :run_id UNION ALL SELECT * FROM normal_calls WHERE run_id = :run_id ORDER BY severity_us ASC LIMIT 5',
  );
});

test('a statement is one word of the shell', () => {
  expect(sqlCommand('/runs/my heat', "SELECT 'x'")).toBe("chimbuko sql '/runs/my heat' 'SELECT '\\''x'\\'''");
});
