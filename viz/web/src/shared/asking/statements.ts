/** Requests as SQL statements, which the server writes. */

import { get } from '../api/http';
import type { Request } from '../api/request';
import type { StatementAnswer } from '../api/types';
import { sqlCommand } from './commands';

/** Command that queries the run's database for the answer to a request. */
export async function statementCommand(directory: string, [path, query]: Request): Promise<string> {
  const { sql } = await get<StatementAnswer>(`sql/${path}`, query, new AbortController().signal);
  if (sql === null) throw new Error('no single SQL statement answers this');
  return sqlCommand(directory, sql);
}
