/** Hardware of a node as a tree, and where ranks may run. */

import type { NodeFacts, NodePart, NodeRank } from '../../shared/api/types';
import { digits, percent, plural } from '../../shared/units/units';

export interface Box {
  part: NodePart;
  text: string;
  children: Box[];
}

const NAMES: Readonly<Record<string, string>> = {
  Machine: 'node',
  Package: 'package',
  NUMANode: 'memory',
  L3Cache: 'L3',
  L2Cache: 'L2',
  Core: 'core',
  PU: '',
};

/** Make a tree of a list in which each part follows the one that contains it. */
export function boxesOf(parts: readonly NodePart[]): Box[] {
  const roots: Box[] = [];
  const path: Box[] = [];
  for (const part of parts) {
    path.length = Math.min(path.length, part.depth);
    const box = { part, text: textOf(part), children: [] };
    (path[path.length - 1]?.children ?? roots).push(box);
    path.push(box);
  }
  return roots;
}

/** Name, number and size of a part, such as `L2 3, 2 MB`; hardware threads have the kernel's number. */
function textOf({ kind, logical, physical, size_bytes }: NodePart): string {
  const name = NAMES[kind] ?? kind;
  const number = kind === 'Machine' ? '' : String(kind === 'PU' || kind === 'NUMANode' ? (physical ?? logical) : logical);
  return [`${name} ${number}`.trim(), size_bytes === null ? '' : size(size_bytes)].filter((text) => text !== '').join(', ');
}

function size(bytes: number): string {
  const [factor, unit] = bytes >= 2 ** 30 ? [2 ** 30, 'GB'] : bytes >= 2 ** 20 ? [2 ** 20, 'MB'] : [1024, 'kB'];
  return `${digits(bytes / factor)} ${unit}`;
}

/** Numbers of a list in the kernel's notation, such as `0-3,8`. */
export function cpusOf(list: string): number[] {
  return list.split(',').flatMap((range) => {
    const [first = NaN, last = first] = range.split('-').map((text) => (text === '' ? NaN : Number(text)));
    return Number.isNaN(first) ? [] : Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

/** Ranks by the hardware threads that they may use. */
export function ranksByCpu(ranks: readonly NodeRank[]): ReadonlyMap<number, number[]> {
  const found = new Map<number, number[]>();
  for (const { rank, cpus } of ranks) {
    for (const cpu of cpusOf(cpus)) found.set(cpu, [...(found.get(cpu) ?? []), rank]);
  }
  return found;
}

/** Numbers as ranges, such as `0-3, 8`. */
export function rangesOf(numbers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = ranges[ranges.length - 1];
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(', ');
}

/** Numbers of parts by kind, such as `2 packages, 8 cores, 16 hardware threads`. */
export function countsText(parts: readonly NodePart[]): string {
  const kinds = [
    ['Package', 'package'],
    ['NUMANode', 'NUMA node'],
    ['Core', 'core'],
    ['PU', 'hardware thread'],
  ] as const;
  const counts = kinds.map(([kind, name]) => [parts.filter((part) => part.kind === kind).length, name] as const);
  return counts
    .filter(([count]) => count > 0)
    .map(([count, name]) => plural(count, name))
    .join(', ');
}

/** First sentence of the page: what is wrong on the node, and how much of it the ranks used. */
export function nodeAnswer(name: string, facts: NodeFacts): string {
  const kinds = [...new Set(facts.findings.map((finding) => finding.kind))];
  const wrong = kinds.length === 0 ? 'nothing was found wrong' : kinds.join(', ');
  return `${name}: ${wrong}. ${usedText(facts)}`;
}

function usedText({ ranks, cores }: NodeFacts): string {
  const watched = ranks.filter((rank) => rank.length_us > 0);
  if (watched.length === 0) return ranks.length === 0 ? 'No rank was seen on it.' : `${plural(ranks.length, 'rank')}.`;
  const used = watched.reduce((sum, rank) => sum + rank.ran_us / rank.length_us, 0);
  const waited = watched.reduce((sum, rank) => sum + rank.waited_us, 0) / watched.reduce((sum, rank) => sum + rank.length_us, 0);
  const wait = waited < 0.01 ? '' : `, and waited for one for ${percent(Math.min(1, waited))} of the time`;
  return `${plural(ranks.length, 'rank')} used ${digits(used)} of ${plural(cores, 'core')}${wait}.`;
}
