/** The same question as SQL, which the server writes: it knows the tables. */

import { get } from '../api/http';
import type { Request } from '../api/request';
import type { StatementAnswer } from '../api/types';
import { sqlCommand } from './commands';

/** Command that asks the run's database what a request asks the server. */
export async function statementCommand(directory: string, [path, query]: Request): Promise<string> {
  const { sql } = await get<StatementAnswer>(`sql/${path}`, query, new AbortController().signal);
  if (sql === null) throw new Error('no single statement answers this');
  return sqlCommand(directory, sql);
}
