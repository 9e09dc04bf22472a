/** Requests for the grid of all ranks. */

import type { Range } from '../../shared/address/model/ranges';
import { get } from '../../shared/api/http';
import type { Request } from '../../shared/api/request';
import type { GridAnswer } from '../../shared/api/types';
import type { Shown } from '../../shared/address/model/view';
import type { Grid } from './model/grid';

/** Piece of the grid, by places of ranks and by steps, each with its last one. */
export interface GridPiece {
  ranks?: Range;
  steps?: Range;
  rows?: number;
  columns?: number;
  show?: Shown;
  /** Places of ranks in rows of fewer ranks. */
  open?: Range;
}

export function gridRequest({ ranks, steps, rows, columns, show = 'worst', open }: GridPiece): Request {
  const query: [string, string][] = [];
  if (ranks !== undefined) query.push(['ranks', ranks.join('..')]);
  if (steps !== undefined) query.push(['steps', steps.join('..')]);
  if (rows !== undefined) query.push(['rows', String(rows)]);
  if (columns !== undefined) query.push(['columns', String(columns)]);
  if (show !== 'worst') query.push(['show', show]);
  if (open !== undefined) query.push(['open', open.join('..')]);
  return ['grid', query];
}

/** Read the grid of all ranks, or a piece of it in more detail. */
export async function getGrid(signal: AbortSignal, piece: GridPiece = {}): Promise<Grid> {
  const answer = await get<GridAnswer>(...gridRequest(piece), signal);
  return { ...answer, cells: bytesOf(answer.cells), lost: bytesOf(answer.lost) };
}

function bytesOf(text: string): Uint8Array {
  const bytes = atob(text);
  const cells = new Uint8Array(bytes.length);
  // A loop, because calling a function for each of half a million cells takes ten times as long.
  for (let at = 0; at < bytes.length; at++) cells[at] = bytes.charCodeAt(at);
  return cells;
}
