/**
 * Releases what Preact has rendered before.
 *
 * A component that was given children keeps them with everything that was first rendered below them, and each later
 * rendering is reachable from there: 70 kB for each live frame. So the earlier node of each component is cut off from
 * those below and above it as soon as the newer one has replaced it.
 */

import { options, type VNode } from 'preact';

/** Preact's internal names for a node's component, children and parent. */
interface Node extends VNode {
  __c?: object | null;
  __k?: unknown;
  __?: unknown;
}

const drawn = new WeakMap<object, Node>();
const before = options.diffed?.bind(options);

options.diffed = (node: Node) => {
  before?.(node);
  if (node.__c == null) return;
  const earlier = drawn.get(node.__c);
  drawn.set(node.__c, node);
  if (earlier === undefined || earlier === node) return;
  // Preact reads earlier nodes until it has compared the whole tree.
  queueMicrotask(() => (earlier.__k = earlier.__ = null));
};
