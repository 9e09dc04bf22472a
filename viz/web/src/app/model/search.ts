/** Results of a search: pages, ranks, steps, calls, incidents, nodes, and functions by a part of their name. */

import { shorten, shownName } from '../../shared/names/names';
import { callsOf, toNode, toPage, type PAGES } from '../../shared/address/model/trail';
import { count, duration } from '../../shared/units/units';
import { parseRankRange } from '../../shared/address/model/ranges';
import type { View } from '../../shared/address/model/view';
import type { FunctionRow } from '../../shared/api/types';

export interface Found {
  kind: 'page' | 'rank' | 'step' | 'call' | 'incident' | 'node' | 'function';
  text: string;
  detail: string;
  change: Partial<View>;
}

export const MOST_FOUND = 12;

const INCIDENT = /^i[1-9]\d{0,8}$/;
const CALL = /^\d+:\d+:\d+:-?\d+$/;
const RANK = /^(?:rank\s*)?(\d+:\d+|\d+)$/i;
const NODE = /^node\s+(\S+)$/i;
const STEP = /^step\s*(\d+)$/i;

/** Return what a text may mean, the likeliest first; for an empty text, the pages. */
export function search(text: string, functions: readonly FunctionRow[], pages: typeof PAGES): Found[] {
  const wanted = text.trim().toLowerCase();
  const pagesNamed = pages
    .filter(([, name]) => name.toLowerCase().startsWith(wanted))
    .map(([page, name, question]): Found => ({
      kind: 'page',
      text: name,
      detail: question,
      change: toPage(page),
    }));
  const found = [...places(wanted, text.trim()), ...pagesNamed, ...(wanted === '' ? [] : named(wanted, functions))];
  return found.slice(0, MOST_FOUND);
}

/** @param text as it was typed: names of nodes have capitals. */
function places(wanted: string, text: string): Found[] {
  if (CALL.test(wanted)) return [{ kind: 'call', text: `call ${wanted}`, detail: 'everything kept about it', change: { page: 'call', call: wanted } }];
  if (INCIDENT.test(wanted)) {
    const incident = wanted.toUpperCase();
    return [{ kind: 'incident', text: `incident ${incident}`, detail: 'why it was slow', change: { page: 'incident', incident, call: null } }];
  }
  const node = NODE.exec(text)?.[1];
  if (node !== undefined) return [{ kind: 'node', text: `node ${node}`, detail: 'its threads and cores', change: toNode(node) }];
  const step = STEP.exec(wanted)?.[1];
  if (step !== undefined) {
    const steps = [Number(step), Number(step)] as const;
    return [{ kind: 'step', text: `step ${step}`, detail: 'calls of all ranks', change: { ...callsOf(null, steps) } }];
  }
  const rank = parseRankRange(RANK.exec(wanted)?.[1]);
  if (rank === null) return [];
  return [
    { kind: 'rank', text: `rank ${rank}`, detail: 'its calls', change: callsOf(rank, null) },
    { kind: 'rank', text: `rank ${rank}`, detail: 'its timeline', change: { ...callsOf(rank, null), page: 'timeline' } },
  ];
}

/** Functions whose names contain all words; those that begin with the first word stand before the others. */
function named(wanted: string, functions: readonly FunctionRow[]): Found[] {
  const words = wanted.split(/\s+/);
  const begins = (row: FunctionRow): number =>
    shownName(row.name)
      .toLowerCase()
      .startsWith(words[0] as string)
      ? 0
      : 1;
  return functions
    .filter((row) => words.every((word) => `${shownName(row.name)} ${row.name}`.toLowerCase().includes(word)))
    .sort((a, b) => begins(a) - begins(b))
    .map((row) => ({
      kind: 'function',
      text: shorten(row.name, 48).text,
      detail: row.anomalies > 0 ? `▲ ${count(row.anomalies)}, ${duration(row.severity_us)} lost` : `${count(row.calls)} calls`,
      change: { page: 'function', function: row.name, call: null, cursor: null },
    }));
}
