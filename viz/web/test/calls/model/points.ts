/** Makes calls in columns, for tests. */

import type { PointColumns, Points } from '../../../src/shared/api/types';

type Numbers = Record<Exclude<keyof PointColumns, 'function' | 'caller' | 'rank' | 'is_anomaly' | 'is_gpu' | 'is_open'>, number>;

export interface Row extends Numbers {
  function: string;
  caller: string | null;
  rank: string;
  is_anomaly: boolean;
  is_gpu: boolean;
  is_open: boolean;
}

const USUAL: Row = {
  function: 'work',
  caller: null,
  rank: '0:0',
  step: 0,
  begin_step: 0,
  begin_row: 0,
  thread: 0,
  entry_us: 2_000_000,
  inclusive_us: 1_000,
  exclusive_us: 1_000,
  expected_us: 1_000,
  severity_us: 0,
  score: 0,
  children: 0,
  messages_count: 0,
  is_anomaly: false,
  is_gpu: false,
  is_open: false,
};

export function pointsOf(changes: readonly Partial<Row>[], given: Partial<Points> = {}): Points {
  const rows = changes.map((change) => ({ ...USUAL, ...change }));
  const functions = [...new Set(rows.flatMap((row) => [row.function, row.caller ?? row.function]))];
  const ranks = [...new Set(rows.map((row) => row.rank))];
  const names = Object.keys(USUAL) as (keyof Row)[];
  const columns = Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])])) as unknown as PointColumns;
  columns.function = rows.map((row) => functions.indexOf(row.function));
  columns.caller = rows.map((row) => functions.indexOf(row.caller ?? ''));
  columns.rank = rows.map((row) => ranks.indexOf(row.rank));
  const anomalies = rows.filter((row) => row.is_anomaly).length;
  return {
    functions,
    ranks,
    nodes: ranks.map((rank) => `node${rank.split(':')[1]}`),
    columns,
    anomalies,
    normal_calls: rows.length - anomalies,
    analysed: null,
    ...given,
  };
}
