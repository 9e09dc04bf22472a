/**
 * Lets go of what Preact has drawn before.
 *
 * Whoever got children keeps them as they were given, with all that was drawn below them at first; and what was drawn
 * later is found from there, picture after picture: 70 kB for each live frame. So each component's earlier node is
 * cut off from what is below and above it, once the newer one is in its place.
 */

import { options, type VNode } from 'preact';

/** Preact's own names: component of a node, its children, its parent. */
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
  // Until the whole tree is compared Preact looks at earlier nodes.
  queueMicrotask(() => (earlier.__k = earlier.__ = null));
};
