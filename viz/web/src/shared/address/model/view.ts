/** View: the whole state of the page, and its form in the address. The path names the subject, the query the rest. */

import { AXES, SCALES, type Axis, type Scale } from './axes';
import { formatRange, formatSpan, parseRange, parseRankRange, parseSpan, RANK, type Range, type RankRange, type Span } from './ranges';
import { parseSelected, trimmed, type Selected } from './slots';
import * as server from '../../api/schema';
import type { RankKey, Statistic } from '../../api/types';

export type Sort = (typeof server.SORTS)[number];
export const STATISTICS = ['mean', 'stddev', 'maximum', 'minimum', 'total', 'skewness', 'kurtosis', 'steps'] as const satisfies readonly Statistic[];
export type LabelWanted = (typeof server.LABELS)[number];
export const LABELS: readonly LabelWanted[] = ['any', 'anomaly', 'normal'];
export type StreamState = (typeof server.STREAM_STATES)[number];
export const STREAM_STATES: readonly StreamState[] = ['reading', 'silent', 'ended', 'broken', 'lost'];
export type StreamOrder = (typeof server.STREAM_ORDERS)[number];
export const STREAM_ORDERS: readonly StreamOrder[] = ['loss', 'rank', 'rows', 'largest_step_bytes'];
/** What ranks and functions are ranked by: time lost because of them, time lost by their own calls (waits included), and statistics. */
export const RANKINGS = ['origin', 'severity_us', ...STATISTICS] as const;
export type RankedBy = (typeof RANKINGS)[number];
export const LISTS = ['incidents', 'worst', 'newest'] as const;
export type List = (typeof LISTS)[number];
/** Widths of the flame graph: the time in a call path, or the time that its abnormal calls lost. */
export const WEIGHTS = ['time', 'lost'] as const;
export type Weight = (typeof WEIGHTS)[number];
/** Measures of the heat map's colours and of the heights in the chart of steps. */
export const MEASURES = ['lost', 'anomalies'] as const;
export type Measure = (typeof MEASURES)[number];
/** What a row of the heat map shows of its ranks: the worst one, the sum, or what 99 of 100 do not exceed. */
export const SHOWN = ['worst', 'sum', 'p99'] as const;
export type Shown = (typeof SHOWN)[number];
/** What is shown over steps: the time of threads, or single ranks. */
export const COURSES = ['time', 'ranks'] as const;
export type Course = (typeof COURSES)[number];
/** Pages; each has its own path in the address. */
export type PageName =
  'overview' | 'wall' | 'calls' | 'timeline' | 'flame' | 'call' | 'function' | 'incident' | 'node' | 'workflow' | 'health' | 'compare' | 'history';

export interface View {
  run: string;
  page: PageName;
  /** Id of the call whose page is open, or that is selected on another page. */
  call: string | null;
  /** Id of the incident or finding whose page is open, or whose calls are listed. */
  incident: string | null;
  /** Folders of the runs to compare with, separated by /; empty while one is to be chosen. */
  compare: string;
  /** Folders of further runs on the side of this one, separated by /. */
  also: string;
  selected: Selected;
  statistic: RankedBy;
  n: number;
  /** Quantity by which functions are ranked. */
  by: RankedBy;
  /** List on the overview: incidents, or calls in an order. */
  list: List;
  /** Measure that the overview's heat map and chart of steps show. */
  measure: Measure;
  /** What the overview shows over steps. */
  course: Course;
  /** Steps that charts show; null shows the whole run. */
  zoom: Range | null;
  /** Number of newest steps that charts show and follow; 0 where they do not follow. */
  newest: number;
  /** Ranks that the heat map shows, by place in the order of program and rank; null shows all. */
  ranks: Range | null;
  /** What rows of the heat map show of their ranks; null for the usual one. */
  rows: Shown | null;
  /** Places of ranks whose row of the heat map is opened: they have rows of their own, or share them with few. */
  open: Range | null;
  /** Steps of the calls; this field and the next ones up to `text` are filters of calls. */
  steps: Range | null;
  rank: RankRange | null;
  function: string;
  /** Program of the function whose page is open; null where the name is unique. */
  program: number | null;
  severity_us: number;
  score: number;
  /** Pattern of node names; on a node's page, its whole name. */
  node: string;
  thread: number | null;
  /** Time since the run's start, in µs, that calls overlap. */
  times: Range | null;
  label: LabelWanted;
  gpu: boolean | null;
  /** Part of a name on the call path, or of the node's name. */
  text: string;
  /** Axes of the chart of calls; without a scale, an axis has its usual one. */
  x: Axis;
  y: Axis;
  xScale: Scale | null;
  yScale: Scale | null;
  /** Values at the ends of the axes; null shows all calls. */
  xRange: Span | null;
  yRange: Span | null;
  sort: Sort;
  descending: boolean;
  cursor: string | null;
  /** Order of the list of streams, the state of the listed ones, and the cursor of its page. */
  streamOrder: StreamOrder;
  streamState: StreamState | null;
  streamCursor: string | null;
  /** First lane that a chart of a node shows, by the chart's name; without one it begins with the first of all. */
  lanesFrom: Readonly<Record<string, string | null>>;
  /** Time that the timeline or a node's page shows, in µs since the run's start; null for the surroundings of the selected call, or for all. */
  window: Range | null;
  /** Number of newest seconds that the timeline shows and follows; null where it does not follow. */
  recent_s: number | null;
  /** Ranks that the timeline shows beside its main one. */
  partners: readonly RankKey[];
  /** Whether the timeline folds times for which nothing was kept. */
  folded: boolean;
  /** Time that is selected on the timeline, in µs since the run's start, and the lines, as `0:3` or `0:3/1`; without any, all that are shown. */
  box: Range | null;
  boxLines: readonly string[];
  /** Whether the timeline draws all messages, and not only those that were waited for or that belong to the selected call. */
  messages: boolean;
  /** Widths of the flame graph, the frame that it is zoomed to, and the part of a name that is searched for. */
  weight: Weight;
  frame: string;
  find: string;
  /** Published quantity on the page of the workflow, as `namespace/name`; empty for the first one. */
  quantity: string;
  /** Names of the panels that show tables instead of pictures. */
  tables: readonly string[];
}

export const FIRST_VIEW: View = {
  run: '',
  page: 'overview',
  call: null,
  incident: null,
  compare: '',
  also: '',
  selected: [],
  statistic: 'origin',
  n: 5,
  by: 'origin',
  list: 'incidents',
  measure: 'lost',
  course: 'time',
  zoom: null,
  newest: 0,
  ranks: null,
  rows: null,
  open: null,
  steps: null,
  rank: null,
  function: '',
  program: null,
  severity_us: 0,
  score: 0,
  node: '',
  thread: null,
  times: null,
  label: 'any',
  gpu: null,
  text: '',
  x: 'entry',
  y: 'function',
  xScale: null,
  yScale: null,
  xRange: null,
  yRange: null,
  sort: 'severity_us',
  descending: true,
  cursor: null,
  streamOrder: 'loss',
  streamState: null,
  streamCursor: null,
  lanesFrom: {},
  window: null,
  recent_s: null,
  partners: [],
  folded: false,
  box: null,
  boxLines: [],
  messages: false,
  weight: 'time',
  frame: '',
  find: '',
  quantity: '',
  tables: [],
};

/** Pattern of the ids of incidents, recurring findings, and findings about published quantities. */
const INCIDENT = /^[IRM][1-9]\d{0,8}$/;
/** Pattern of the ids of the flame graph's frames. */
const FRAME = /^[0-9a-f]{8}$/;
const CALL = /^\d{1,9}(?::\d{1,12}){3}$/;
/** Pattern of a rank, or of one of its threads. */
const LINE = /^\d{1,9}:\d{1,9}(?:\/\d{1,9})?$/;
const PATH = /^r\/([^/]+)(?:\/([^/]+)(?:\/(.+?))?)?\/?$/;
/** Pages whose path ends in a fixed name. */
const PLAIN: Readonly<Record<string, PageName>> = {
  calls: 'calls',
  wall: 'wall',
  timeline: 'timeline',
  flame: 'flame',
  fn: 'function',
  workflow: 'workflow',
  health: 'health',
  history: 'history',
};
export const MOST_RANKS = 100;
/** Most partner ranks on one timeline. */
export const MOST_PARTNERS = 12;

/** Whether an id belongs to a finding about a published quantity. */
export const isMetric = (id: string | null): boolean => id?.startsWith('M') ?? false;

/** Whether an id belongs to a recurring finding. */
export const isRecurring = (id: string | null): boolean => id?.startsWith('R') ?? false;

/** Parse a path (relative to the server's root) and a query; parts that make no sense are ignored. */
export function parseView(path: string, query: string): View {
  const given = parseQuery(query);
  return {
    ...parsePath(path, given),
    selected: parseSelected(given.get('sel') ?? ''),
    statistic: oneOf(RANKINGS, given.get('statistic'), FIRST_VIEW.statistic),
    n: Math.min(MOST_RANKS, Math.max(1, whole(given.get('n')) ?? FIRST_VIEW.n)),
    by: oneOf(RANKINGS, given.get('by'), FIRST_VIEW.by),
    list: oneOf(LISTS, given.get('list'), FIRST_VIEW.list),
    measure: oneOf(MEASURES, given.get('measure'), FIRST_VIEW.measure),
    course: oneOf(COURSES, given.get('course'), FIRST_VIEW.course),
    zoom: parseRange(given.get('zoom')),
    newest: whole(given.get('newest')) ?? 0,
    ranks: parseRange(given.get('ranks')),
    rows: SHOWN.find((one) => one === given.get('rows')) ?? null,
    open: parseRange(given.get('open')),
    steps: parseRange(given.get('step')),
    rank: parseRankRange(given.get('rank'), null),
    function: given.get('function') ?? '',
    program: whole(given.get('program')),
    severity_us: Math.max(0, Number(given.get('severity_us')) || 0),
    score: Math.max(0, Number(given.get('score')) || 0),
    thread: whole(given.get('thread')),
    times: parseRange(given.get('time')),
    label: oneOf(LABELS, given.get('label'), FIRST_VIEW.label),
    gpu: { true: true, false: false }[given.get('gpu') ?? ''] ?? null,
    text: given.get('text') ?? '',
    x: oneOf(AXES, given.get('x'), FIRST_VIEW.x),
    y: oneOf(AXES, given.get('y'), FIRST_VIEW.y),
    xScale: SCALES.find((scale) => scale === given.get('xscale')) ?? null,
    yScale: SCALES.find((scale) => scale === given.get('yscale')) ?? null,
    xRange: parseSpan(given.get('xrange')),
    yRange: parseSpan(given.get('yrange')),
    sort: oneOf(server.SORTS, given.get('sort'), FIRST_VIEW.sort),
    descending: given.get('order') !== 'asc',
    cursor: given.get('cursor') ?? null,
    streamOrder: oneOf(STREAM_ORDERS, given.get('streams'), FIRST_VIEW.streamOrder),
    streamState: STREAM_STATES.find((state) => state === given.get('state')) ?? null,
    streamCursor: given.get('streams_from') ?? null,
    lanesFrom: parseLanesFrom(given),
    window: parseRange(given.get('t')),
    recent_s: whole(/^-(\d{1,9})s\.\.now$/.exec(given.get('t') ?? '')?.[1]),
    partners: parsePartners(given.get('with') ?? ''),
    folded: given.get('fold') === 'true',
    box: parseRange(given.get('box')),
    boxLines: (given.get('lines') ?? '').split(',').filter((line) => LINE.test(line)),
    messages: given.get('messages') === 'true',
    weight: oneOf(WEIGHTS, given.get('weight'), FIRST_VIEW.weight),
    also: given.get('also') ?? '',
    frame: FRAME.test(given.get('frame') ?? '') ? (given.get('frame') as string) : '',
    find: given.get('find') ?? '',
    quantity: given.get('quantity') ?? '',
    tables: (given.get('table') ?? '').split(',').filter((name) => name !== ''),
  };
}

/** Format a view as path and query; fields with their first values are left out. */
export function formatView(view: View): string {
  const query: [string, string][] = [];
  const add = (name: string, value: string, first = ''): void => {
    if (value !== first) query.push([name, value]);
  };
  if (view.page !== 'call') add('call', view.call ?? '');
  if (view.page !== 'incident') add('incident', view.incident ?? '');
  add(
    'sel',
    trimmed(view.selected)
      .map((rank) => rank ?? '')
      .join(','),
  );
  add('statistic', view.statistic, FIRST_VIEW.statistic);
  add('n', String(view.n), String(FIRST_VIEW.n));
  add('by', view.by, FIRST_VIEW.by);
  add('list', view.list, FIRST_VIEW.list);
  add('measure', view.measure, FIRST_VIEW.measure);
  add('course', view.course, FIRST_VIEW.course);
  add('zoom', formatRange(view.zoom));
  add('newest', String(view.newest), '0');
  add('ranks', formatRange(view.ranks));
  add('rows', view.rows ?? '');
  add('open', formatRange(view.open));
  add('step', formatRange(view.steps));
  add('rank', view.rank ?? '');
  add('function', view.function);
  add('program', String(view.program ?? ''));
  add('severity_us', String(view.severity_us), '0');
  add('score', String(view.score), '0');
  if (view.page !== 'node') add('node', view.node);
  add('thread', String(view.thread ?? ''));
  add('time', formatRange(view.times));
  add('label', view.label, FIRST_VIEW.label);
  add('gpu', String(view.gpu ?? ''));
  add('text', view.text);
  add('x', view.x, FIRST_VIEW.x);
  add('y', view.y, FIRST_VIEW.y);
  add('xscale', view.xScale ?? '');
  add('yscale', view.yScale ?? '');
  add('xrange', formatSpan(view.xRange));
  add('yrange', formatSpan(view.yRange));
  add('sort', view.sort, FIRST_VIEW.sort);
  add('order', view.descending ? '' : 'asc');
  add('cursor', view.cursor ?? '');
  add('streams', view.streamOrder, FIRST_VIEW.streamOrder);
  add('state', view.streamState ?? '');
  add('streams_from', view.streamCursor ?? '');
  if (view.page === 'node') {
    add('t', formatRange(view.window));
    for (const [chart, first] of Object.entries(view.lanesFrom)) add(`${chart}_from`, first ?? '');
  }
  if (view.page === 'timeline') {
    add('t', view.recent_s === null ? formatRange(view.window) : `-${view.recent_s}s..now`);
    add('with', view.partners.join(','));
    add('fold', String(view.folded), 'false');
    add('messages', String(view.messages), 'false');
    add('box', formatRange(view.box));
    if (view.box !== null) add('lines', view.boxLines.join(','));
  }
  if (view.page === 'workflow') add('quantity', view.quantity);
  if (view.page === 'flame') add('weight', view.weight, FIRST_VIEW.weight);
  if (view.page === 'flame' || view.page === 'compare') {
    add('frame', view.frame);
    add('find', view.find);
  }
  if (view.page === 'compare' && view.compare !== '') add('also', view.also);
  add('table', view.tables.join(','));
  const text = query.map(([name, value]) => `${name}=${readable(value)}`).join('&');
  return formatPath(view) + (text === '' ? '' : `?${text}`);
}

type PathFields = Pick<View, 'run' | 'page' | 'call' | 'incident' | 'node' | 'compare'>;

/** Parse the path; an unknown path yields a view without a run. */
function parsePath(path: string, given: ReadonlyMap<string, string>): PathFields {
  const [call = '', incident = '', node = ''] = ['call', 'incident', 'node'].map((name) => given.get(name));
  const chosen = { node, call: CALL.test(call) ? call : null, incident: INCIDENT.test(incident) ? incident : null };
  const unknown: PathFields = { run: '', page: 'overview', ...chosen, compare: '' };
  const match = PATH.exec(path);
  if (match === null) return unknown;
  const [, run = '', page, rest = ''] = match;
  const named = { ...unknown, run: decoded(run) };
  if (page === undefined) return given.has('wall') ? { ...named, page: 'wall' } : named;
  if (page === 'compare') return { ...named, page: 'compare', compare: decoded(rest) };
  if (page === 'node') return { ...named, page: 'node', node: decoded(rest) };
  const id = decoded(rest).replace('/', ':');
  if (page === 'call' && CALL.test(id)) return { ...named, page: 'call', call: id };
  if (page === 'incident' && INCIDENT.test(rest)) return { ...named, page: 'incident', incident: rest };
  const plain = rest === '' ? PLAIN[page] : undefined;
  return plain === undefined ? unknown : { ...named, page: plain };
}

function formatPath(view: View): string {
  const run = `r/${encodeURIComponent(view.run)}`;
  if (view.page === 'overview') return run;
  if (view.page === 'compare') return `${run}/compare${view.compare === '' ? '' : `/${view.compare.split('/').map(encodeURIComponent).join('/')}`}`;
  if (view.page === 'call') return `${run}/call/${(view.call ?? '').replace(':', '/')}`;
  if (view.page === 'node') return `${run}/node${view.node === '' ? '' : `/${encodeURIComponent(view.node)}`}`;
  if (view.page === 'incident') return `${run}/incident/${view.incident ?? ''}`;
  return `${run}/${view.page === 'function' ? 'fn' : view.page}`;
}

function parsePartners(text: string): RankKey[] {
  const ranks = text.split(',').filter((rank) => RANK.test(rank));
  return [...new Set(ranks)].slice(0, MOST_PARTNERS);
}

/** Parse parameters such as `threads_from=16`; `streams_from` belongs to the list of streams. */
function parseLanesFrom(given: ReadonlyMap<string, string>): View['lanesFrom'] {
  const first = new Map<string, string>();
  for (const [name, value] of given) {
    const chart = /^(?!streams_)([a-z_]+)_from$/.exec(name)?.[1];
    if (chart !== undefined) first.set(chart, value);
  }
  return Object.fromEntries(first);
}

function oneOf<T extends string>(known: readonly T[], text: string | undefined, otherwise: T): T {
  return known.find((value) => value === text) ?? otherwise;
}

function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function parseQuery(query: string): Map<string, string> {
  return new Map(
    query.split('&').map((part): [string, string] => {
      const [name = '', ...value] = part.replace(/\+/g, ' ').split('=');
      return [decoded(name), decoded(value.join('='))];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Percent-encode a value, except for characters that are safe in a query and easier to read as they are. */
function readable(value: string): string {
  return encodeURIComponent(value).replace(/%3A/g, ':').replace(/%2C/g, ',').replace(/%2A/g, '*').replace(/%2F/g, '/');
}
