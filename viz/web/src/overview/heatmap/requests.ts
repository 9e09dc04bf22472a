/** What the server can be asked about the grid of all ranks. */

import type { Range } from '../../shared/address/model/ranges';
import { get } from '../../shared/api/http';
import type { Request } from '../../shared/api/request';
import type { GridAnswer } from '../../shared/api/types';
import type { Grid } from './model/grid';

/** A piece of the grid of all ranks: by place of the ranks and by step, both to the last one named. */
export interface GridPiece {
  ranks?: Range;
  steps?: Range;
  rows?: number;
  columns?: number;
}

export function gridRequest({ ranks, steps, rows, columns }: GridPiece): Request {
  const query: [string, string][] = [];
  if (ranks !== undefined) query.push(['ranks', ranks.join('..')]);
  if (steps !== undefined) query.push(['steps', steps.join('..')]);
  if (rows !== undefined) query.push(['rows', String(rows)]);
  if (columns !== undefined) query.push(['columns', String(columns)]);
  return ['grid', query];
}

/** The grid of all ranks, or a piece of it in more detail. */
export async function getGrid(signal: AbortSignal, piece: GridPiece = {}): Promise<Grid> {
  const answer = await get<GridAnswer>(...gridRequest(piece), signal);
  return { ...answer, cells: bytesOf(answer.cells), lost: bytesOf(answer.lost) };
}

function bytesOf(text: string): Uint8Array {
  const bytes = atob(text);
  const cells = new Uint8Array(bytes.length);
  // Up to half a million: a function that is called for each takes ten times as long.
  for (let at = 0; at < bytes.length; at++) cells[at] = bytes.charCodeAt(at);
  return cells;
}
