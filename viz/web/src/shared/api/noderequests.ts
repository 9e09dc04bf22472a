/** Requests for the nodes of a run. */

import { get } from './http';
import type { Query, Request } from './request';
import type { CallPage, NodeAnswer, NodesAnswer } from './types';

/** Interval of time, in µs since the epoch. */
export type Interval = readonly [begin_us: number, end_us: number];

/** Number of intervals in a chart, each some pixels wide. */
const COLUMNS = 200;
const MOST_NODES = 1000;
/** Most abnormal calls that charts mark. */
export const MOST_MARKS = 200;

export const nodesRequest = (): Request => ['nodes', [['limit', String(MOST_NODES)]]];
export const getNodes = (signal: AbortSignal): Promise<NodesAnswer> => get(...nodesRequest(), signal);

const pathOf = (node: string): string => `nodes/${encodeURIComponent(node)}`;

export const nodeRequest = (node: string): Request => [pathOf(node), []];
export const getNode = (node: string, signal: AbortSignal): Promise<NodeAnswer> => get(...nodeRequest(node), signal);

const during = ([begin, end]: Interval, cursor: string | null): Query => [
  ['begin_us', String(begin)],
  ['length_us', String(Math.max(1, end - begin))],
  ['columns', String(COLUMNS)],
  ...(cursor === null ? [] : [['cursor', cursor] as const]),
];

/** Lanes of a node's chart, from `cursor` on. */
export const lanesRequest = (node: string, chart: string, times: Interval, cursor: string | null): Request => [
  `${pathOf(node)}/${chart}`,
  during(times, cursor),
];
export const getLanes = <Answer>(node: string, chart: string, times: Interval, cursor: string | null, signal: AbortSignal): Promise<Answer> =>
  get(...lanesRequest(node, chart, times, cursor), signal);

/** Abnormal calls of a node, the most time lost first. */
export const getMarks = (node: string, [begin, end]: Interval, signal: AbortSignal): Promise<CallPage> =>
  get(
    'calls',
    [
      ['node', node],
      ['label', 'anomaly'],
      ['sort', 'severity_us'],
      ['limit', String(MOST_MARKS)],
      ['time_min_us', String(begin)],
      ['time_max_us', String(end)],
    ],
    signal,
  );
