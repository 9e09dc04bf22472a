/** Where a page stands: from the run down to what is looked at. */

import { shorten } from '../../names/names';
import { formatRange, oneRank, type RankRange } from './ranges';
import { isMetric, isRecurring, type PageName, type View } from './view';

/** What a step of the trail is, and so what stands beside it. */
export type Kind = 'run' | 'program' | 'rank' | 'step' | 'call' | 'node' | 'page';

export interface Crumb {
  kind: Kind;
  text: string;
  /** Leads there from where we are. */
  change: Partial<View>;
}

/** Pages of a run that are not about one thing in it, in the order of the four clicks. */
export const PAGES: readonly (readonly [page: PageName, name: string, question: string])[] = [
  ['overview', 'Overview', 'where and when?'],
  ['calls', 'Calls', 'which call?'],
  ['timeline', 'Timeline', 'what happened?'],
  ['flame', 'Flame graph', 'where does time go?'],
  ['node', 'Nodes', 'what did the machines do?'],
  ['workflow', 'Workflow', 'what was published?'],
  ['health', 'Health', 'trustworthy?'],
  ['compare', 'Compare', 'what changed since another run?'],
];

/** Those that have something to show: the one about the workflow only where something was published. */
export const pagesOf = (hasPublished: boolean): typeof PAGES => PAGES.filter(([page]) => page !== 'workflow' || hasPublished);

const TOP: Partial<View> = { page: 'overview', call: null, incident: null, compare: '', also: '', cursor: null };

/** Goes to a page of the run; what limits the calls stays, unless the page is about another run, or about all incidents. */
export function toPage(page: PageName): Partial<View> {
  if (page === 'overview') return { page, incident: null, cursor: null };
  if (page === 'node') return toNode('');
  return page === 'compare' ? { page, call: null, compare: '', also: '' } : { page, cursor: null };
}

/** Runs of one side of a comparison, as a view has them. */
export const foldersOf = (side: string): string[] => (side === '' ? [] : side.split('/'));

/** They in a few words. */
export function sideText(side: string): string {
  const folders = foldersOf(side);
  return folders.length > 1 ? `${folders.length} runs` : side;
}

/** What is known of the call that is looked at. */
export interface KnownCall {
  id: string;
  function: string;
  /** In which it ended, and in whose list it stands; its id names the one in which it began. */
  step: number;
}

/**
 * The trail of a page, the run first.
 *
 * @param programs name by number.
 */
export function trail(view: View, programs: Readonly<Record<string, string>>, known: KnownCall | null): Crumb[] {
  const top: Crumb = { kind: 'run', text: view.run, change: TOP };
  const page = (text: string): Crumb => ({ kind: 'page', text, change: {} });
  if (view.page === 'compare') return [top, page(view.compare === '' ? 'compare' : `compared with ${sideText(view.compare)}`)];
  if (view.page === 'node') return [top, view.node === '' ? page('nodes') : { kind: 'node', text: `node ${view.node}`, change: {} }];
  if (view.page === 'workflow') return [top, page('workflow')];
  if (view.page === 'health') return [top, page('health')];
  if (view.page === 'flame') return [top, page(`flame graph${view.function === '' ? '' : ` of ${shorten(view.function, 40).text}`}`)];
  if (view.page === 'function') return [top, page(`function ${shorten(view.function, 40).text}`)];
  if (view.page === 'incident') return [top, page(`${isRecurring(view.incident) || isMetric(view.incident) ? 'finding' : 'incident'} ${view.incident}`)];
  if (view.page === 'overview') return [top, page('all ranks')];
  const { rank, steps } = placeOf(view, known);
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

/** Rank and steps that a page is about: those of its call, else those it is limited to. */
export function placeOf(view: View, known: KnownCall | null): Pick<View, 'rank' | 'steps'> {
  const limits = { rank: view.rank, steps: view.steps };
  if (view.call === null) return limits;
  const [program, number, begin] = view.call.split(':').map(Number) as [number, number, number];
  const rank = `${program}:${number}`;
  const isElsewhere = view.page !== 'call' && view.rank !== null && view.rank !== rank;
  if (isElsewhere) return limits;
  const step = known?.id === view.call ? known.step : begin;
  return { rank, steps: [step, step] };
}

/** Goes to the page of a node, at some times since the run's start or at all. */
export function toNode(node: string, window: View['window'] = null): Partial<View> {
  return { page: 'node', node, window, recent_s: null, lanesFrom: {}, call: null, incident: null, cursor: null };
}

/** Goes to the calls of a rank, or several, of some steps or of all. */
export function callsOf(rank: RankRange | null, steps: View['steps']): Partial<View> {
  return { page: 'calls', rank, steps, call: null, cursor: null };
}

/** One step up the trail. */
export function up(crumbs: readonly Crumb[]): Partial<View> {
  const above = crumbs.slice(0, -1).filter((crumb) => crumb.kind !== 'program');
  return above[above.length - 1]?.change ?? TOP;
}
