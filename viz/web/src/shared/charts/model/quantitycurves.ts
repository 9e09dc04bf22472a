/** Published quantities as curves. */

import type { Line } from '../../api/types';
import type { Curve } from './curves';

/** Return a curve for each rank; those of `ranks` are marked. */
export const curvesOf = (lines: readonly Line[], ranks: readonly number[]): Curve[] =>
  lines.map(({ rank, times_us, values }) => ({ name: `rank ${rank}`, times_us, values, isMarked: ranks.includes(rank) }));
