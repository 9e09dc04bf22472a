/** Trail of a page: from the run down to what the page shows. */

import { shorten } from '../../names/names';
import { formatRange, oneRank, type RankRange } from './ranges';
import { isMetric, isRecurring, type PageName, type View } from './view';

/** Kind of a crumb, which decides the alternatives in its menu. */
export type Kind = 'run' | 'program' | 'rank' | 'step' | 'call' | 'node' | 'page';

export interface Crumb {
  kind: Kind;
  text: string;
  /** Change of the view that leads there. */
  change: Partial<View>;
}

/** Pages in the menu: those that are not about a single call, function or incident. */
export const PAGES: readonly (readonly [page: PageName, name: string, question: string])[] = [
  ['overview', 'Overview', 'where and when?'],
  ['calls', 'Calls', 'which call?'],
  ['timeline', 'Timeline', 'what happened?'],
  ['flame', 'Flame graph', 'where does time go?'],
  ['node', 'Nodes', 'what did the machines do?'],
  ['workflow', 'Workflow', 'what was published?'],
  ['health', 'Health', 'trustworthy?'],
  ['compare', 'Compare', 'what changed since another run?'],
  ['history', 'History', 'since when, over many runs?'],
];

/** Pages that have something to show; that about the workflow only where something was published. */
export const pagesOf = (hasPublished: boolean): typeof PAGES => PAGES.filter(([page]) => page !== 'workflow' || hasPublished);

const TOP: Partial<View> = { page: 'overview', call: null, incident: null, compare: '', also: '', cursor: null };

/** Change of the view that leads to a page of the menu. Filters of calls remain, unless the page compares runs or lists all incidents. */
export function toPage(page: PageName): Partial<View> {
  if (page === 'overview') return { page, incident: null, cursor: null };
  if (page === 'node') return toNode('');
  return page === 'compare' ? { page, call: null, compare: '', also: '' } : { page, cursor: null };
}

/** Folders of the runs on one side of a comparison. */
export const foldersOf = (side: string): string[] => (side === '' ? [] : side.split('/'));

/** One side of a comparison in a few words. */
export function sideText(side: string): string {
  const folders = foldersOf(side);
  return folders.length > 1 ? `${folders.length} runs` : side;
}

/** Facts about the selected call. */
export interface KnownCall {
  id: string;
  function: string;
  /** Step in which it ended, in whose list it stands; its id names the step in which it began. */
  step: number;
}

/**
 * Trail of a page, the run first.
 *
 * @param programs names by number.
 */
export function trail(view: View, programs: Readonly<Record<string, string>>, known: KnownCall | null): Crumb[] {
  const top: Crumb = { kind: 'run', text: view.run, change: TOP };
  const page = (text: string): Crumb => ({ kind: 'page', text, change: {} });
  if (view.page === 'compare') return [top, page(view.compare === '' ? 'compare' : `compared with ${sideText(view.compare)}`)];
  if (view.page === 'node') return [top, view.node === '' ? page('nodes') : { kind: 'node', text: `node ${view.node}`, change: {} }];
  if (view.page === 'workflow') return [top, page('workflow')];
  if (view.page === 'health') return [top, page('health')];
  if (view.page === 'history') return [top, page('history')];
  if (view.page === 'flame') return [top, page(`flame graph${view.function === '' ? '' : ` of ${shorten(view.function, 40).text}`}`)];
  if (view.page === 'function') return [top, page(`function ${shorten(view.function, 40).text}`)];
  if (view.page === 'incident') return [top, page(`${isRecurring(view.incident) || isMetric(view.incident) ? 'finding' : 'incident'} ${view.incident}`)];
  if (view.page === 'overview') return [top, page('all ranks')];
  const { rank, steps } = rankAndSteps(view, known);
  const below = rank === null ? [page('all ranks')] : rankTrail(rank, programs);
  if (steps !== null) below.push({ kind: 'step', text: `step ${formatRange(steps)}`, change: callsOf(rank, steps) });
  if (view.call !== null) {
    const name = known?.id === view.call ? shorten(known.function, 24).text : '';
    const text = `${name} #${view.call.split(':')[3]}`.trim();
    below.push({ kind: 'call', text, change: { page: 'call', call: view.call } });
  }
  return [top, ...below];
}

function rankTrail(rank: RankRange, programs: Readonly<Record<string, string>>): Crumb[] {
  const [program, number] = rank.split(':') as [string, string];
  return [
    { kind: 'program', text: programs[program] ?? `program ${program}`, change: TOP },
    { kind: 'rank', text: `${oneRank(rank) === null ? 'ranks' : 'rank'} ${number}`, change: callsOf(rank, null) },
  ];
}

/** Rank and steps of a page: those of its call, or else those of its filters. */
export function rankAndSteps(view: View, known: KnownCall | null): Pick<View, 'rank' | 'steps'> {
  const limits = { rank: view.rank, steps: view.steps };
  if (view.call === null) return limits;
  const [program, number, begin] = view.call.split(':').map(Number) as [number, number, number];
  const rank = `${program}:${number}`;
  const isElsewhere = view.page !== 'call' && view.rank !== null && view.rank !== rank;
  if (isElsewhere) return limits;
  const step = known?.id === view.call ? known.step : begin;
  return { rank, steps: [step, step] };
}

/** Change of the view that leads to the page of a node, in a time since the run's start or in the whole time. */
export function toNode(node: string, window: View['window'] = null): Partial<View> {
  return { page: 'node', node, window, recent_s: null, lanesFrom: {}, call: null, incident: null, cursor: null };
}

/** Change of the view that leads to the calls of some ranks and steps. */
export function callsOf(rank: RankRange | null, steps: View['steps']): Partial<View> {
  return { page: 'calls', rank, steps, call: null, cursor: null };
}

/** Change of the view that leads one level up the trail. */
export function up(crumbs: readonly Crumb[]): Partial<View> {
  const above = crumbs.slice(0, -1).filter((crumb) => crumb.kind !== 'program');
  return above[above.length - 1]?.change ?? TOP;
}
