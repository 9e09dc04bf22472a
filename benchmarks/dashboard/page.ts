/** The overview without a picture: all that it asks and hears, by the page's own modules. */

import { functions, calls, ranking } from '../../viz/web/src/overview/overview';
import { grid } from '../../viz/web/src/overview/heatmap/grid';
import { series } from '../../viz/web/src/overview/steps/histories';
import { lostAt, run, start, status } from '../../viz/web/src/shared/session/session';

start();

export const isLinked = (): boolean => status.value !== null && lostAt.value === null && grid.value !== null;

/** What a page would show now. */
export const shown = (): unknown => ({
  status: status.value,
  answer: run.value.value?.answer,
  ranking: ranking.value.value,
  functions: functions.value.value,
  calls: calls.value.value,
  series: series.value.map(({ rank, rows }) => ({ rank, rows })),
  grid: grid.value && { ...grid.value, cells: Buffer.from(grid.value.cells).toString('base64') },
});
