/** Call paths to a function, as rows of a tree. */

import type { PathNode } from '../../shared/api/types';

export interface TreeRow {
  node: PathNode;
  depth: number;
  /** Whether it is the function itself, not one of its callers. */
  isOwn: boolean;
}

/** Rows in the order of a tree; below each caller, the call paths that lost most come first. */
export function treeRows(nodes: readonly PathNode[], name: string): TreeRow[] {
  const children = new Map<number | null, number[]>();
  nodes.forEach((node, at) => children.set(node.parent, [...(children.get(node.parent) ?? []), at]));
  const lost = nodes.map((node) => node.severity_us);
  // Callers stand before their callees, so summing from the end finds each callee complete.
  for (let at = nodes.length - 1; at >= 0; at--) {
    const parent = nodes[at]?.parent;
    if (parent != null) lost[parent] = (lost[parent] as number) + (lost[at] as number);
  }
  const rows: TreeRow[] = [];
  const waiting = worstFirst(children.get(null) ?? [], lost).map((at): [at: number, depth: number] => [at, 0]);
  while (waiting.length > 0) {
    const [at, depth] = waiting.pop() as [number, number];
    const node = nodes[at] as PathNode;
    rows.push({ node, depth, isOwn: node.function === name && (node.calls > 0 || node.path !== null) });
    for (const child of worstFirst(children.get(at) ?? [], lost)) waiting.push([child, depth + 1]);
  }
  return rows;
}

/** Order for a stack: the worst path, which is taken first, stands last. */
function worstFirst(places: readonly number[], lost: readonly number[]): number[] {
  return [...places].sort((a, b) => (lost[a] as number) - (lost[b] as number) || b - a);
}
