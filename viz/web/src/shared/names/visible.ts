/**
 * Names as a page shows them: what turns the direction of writing, or cannot be seen, is written out.
 *
 * A program chooses the names of its functions and files: raw, one could turn the sentence around it, or pass for
 * another.
 */

import { options } from 'preact';

const ACTING = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The text with what acts on its display as escapes: `\u202e`. */
export function visible(text: string): string {
  return text.replace(ACTING, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const before = options.vnode?.bind(options);

options.vnode = (node) => {
  before?.(node);
  // Of a text Preact makes a node without a type.
  const text = node as { type: unknown; props: unknown };
  if (text.type === null && typeof text.props === 'string') text.props = visible(text.props);
};
