/** Call paths as frames of a flame graph, each as wide as its inclusive time. */

import type { Weight } from '../../shared/address/model/view';
import type { PathNode } from '../../shared/api/types';

export interface Frame {
  /** Hash of the names on its path: the same in every picture that has the path. */
  id: string;
  /** Index of the caller; -1 for the first frame, which stands for all. */
  parent: number;
  depth: number;
  program: number;
  /** Name of the function; empty for the frame that stands for all. */
  name: string;
  /** Number of calls that the detector has counted. */
  calls: number;
  anomalies: number;
  /** Time lost by abnormal calls of this path itself. */
  lost_us: number;
  /** Inclusive time, which is its width. */
  total_us: number;
  /** Exclusive time. */
  own_us: number;
  /** Part of the exclusive time of all its calls that their threads slept, as far as it is known. */
  slept_us: number;
  /** Indices of its callees, the widest first. */
  children: number[];
}

/** Selection and width of the frames. */
export interface Wanted {
  weight: Weight;
  /** Function below whose outermost calls the frames begin, over all its callers; empty for all call paths. */
  name: string;
  program: number | null;
  /** Runtime that calls are judged by: if it is inclusive, the lost time of a caller includes that of its callees. */
  metric: 'exclusive' | 'inclusive';
}

/** Make frames of call paths. In both lists callers stand before their callees. */
export function framesOf(nodes: readonly PathNode[], wanted: Wanted): Frame[] {
  const frames = [newFrame('', -1, 0, -1, hashed(OFFSET, ''))];
  const hashes = [hashed(OFFSET, '')];
  const known = new Map<string, number>();
  const indices: number[] = [];
  const inclusive = isInclusive(nodes, wanted);
  const values = [0];
  for (const node of nodes) {
    const caller = node.parent === null ? -1 : (indices[node.parent] as number);
    const isRoot = wanted.name === '' ? node.parent === null : node.function === wanted.name && (wanted.program ?? node.program) === node.program;
    const parent = caller > 0 ? caller : isRoot ? 0 : -1;
    if (parent < 0) {
      indices.push(-1);
      continue;
    }
    const key = `${parent} ${node.program} ${node.function}`;
    let index = known.get(key);
    if (index === undefined) {
      index = frames.length;
      known.set(key, index);
      const hash = hashed(hashes[parent] as number, `${node.program} ${node.function}`);
      hashes.push(hash);
      const above = frames[parent] as Frame;
      frames.push(newFrame(node.function, node.program, above.depth + 1, parent, hash));
      above.children.push(index);
      values.push(0);
    }
    indices.push(index);
    const frame = frames[index] as Frame;
    frame.calls += node.calls;
    frame.anomalies += node.anomalies;
    frame.lost_us += node.severity_us;
    frame.slept_us += node.slept_us ?? 0;
    values[index] = (values[index] as number) + valueOf(node, wanted.weight, inclusive);
  }
  return summed(frames, values, inclusive);
}

const newFrame = (name: string, program: number, depth: number, parent: number, hash: number): Frame => ({
  id: (hash >>> 0).toString(16).padStart(8, '0'),
  parent,
  depth,
  program,
  name,
  calls: 0,
  anomalies: 0,
  lost_us: 0,
  total_us: 0,
  own_us: 0,
  slept_us: 0,
  children: [],
});

/** Whether the values of a path include those of the paths below it. */
function isInclusive(nodes: readonly PathNode[], { weight, metric }: Wanted): boolean {
  if (weight === 'lost') return metric === 'inclusive';
  // Imported runs may have only one of the runtimes.
  return !nodes.some((node) => node.exclusive_us > 0);
}

function valueOf(node: PathNode, weight: Weight, inclusive: boolean): number {
  if (weight === 'lost') return node.severity_us;
  return inclusive ? node.calls * (node.inclusive?.mean_us ?? 0) : node.exclusive_us;
}

/** Sum the times from the end: callers stand before their callees, so each callee is complete before it is added. */
function summed(frames: Frame[], values: readonly number[], inclusive: boolean): Frame[] {
  const below = values.map(() => 0);
  for (let at = frames.length - 1; at >= 0; at--) {
    const frame = frames[at] as Frame;
    const [value, called] = [values[at] as number, below[at] as number];
    // The sum of calls that had not ended when their callers were counted may exceed that of the callers.
    frame.total_us = inclusive ? Math.max(value, called) : value + called;
    frame.own_us = frame.total_us - called;
    frame.children.sort((a, b) => (frames[b] as Frame).total_us - (frames[a] as Frame).total_us || a - b);
    if (frame.parent >= 0) below[frame.parent] = (below[frame.parent] as number) + frame.total_us;
  }
  return frames;
}

const OFFSET = 0x811c9dc5;
const PRIME = 0x01000193;

/** FNV-1a hash of a text, continued from the hash of the text before it. */
function hashed(from: number, text: string): number {
  let hash = from;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), PRIME);
  return Math.imul(hash ^ 0xff, PRIME);
}

/** Index of the frame with an id; 0, the frame that stands for all, where no such frame has any time. */
export function indexOfFrame(frames: readonly Frame[], id: string): number {
  return Math.max(
    0,
    frames.findIndex((frame) => frame.id === id && frame.total_us > 0),
  );
}

/** Names on the path of a frame, the outermost first. */
export function pathOf(frames: readonly Frame[], index: number): string[] {
  const names: string[] = [];
  for (let at = index; at > 0; at = (frames[at] as Frame).parent) names.push((frames[at] as Frame).name);
  return names.reverse();
}

/** Frames whose names contain a text, regardless of case. */
export interface Matches {
  /** Flags by index: 1 where a frame matches. */
  flags: Uint8Array;
  count: number;
  /** Time in matching frames, counted once where their callers match too. */
  total_us: number;
}

/** Search for a part of a name, in a frame and below it. */
export function search(frames: readonly Frame[], text: string, below: number): Matches {
  const wanted = text.trim().toLowerCase();
  const found: Matches = { flags: new Uint8Array(frames.length), count: 0, total_us: 0 };
  if (wanted === '') return found;
  const names = new Map<string, boolean>();
  const inside = new Uint8Array(frames.length);
  const covered = new Uint8Array(frames.length);
  frames.forEach((frame, at) => {
    let matches = names.get(frame.name);
    if (matches === undefined) names.set(frame.name, (matches = frame.name.toLowerCase().includes(wanted)));
    const isCovered = frame.parent >= 0 && covered[frame.parent] === 1;
    inside[at] = at === below || (frame.parent >= 0 && inside[frame.parent] === 1) ? 1 : 0;
    covered[at] = inside[at] === 1 && (matches || isCovered) ? 1 : 0;
    if (!matches) return;
    found.flags[at] = 1;
    if (inside[at] === 0 || frame.total_us === 0) return;
    found.count++;
    if (!isCovered) found.total_us += frame.total_us;
  });
  return found;
}

/** Number of rows of the picture. */
export const rowsOf = (frames: readonly Frame[]): number => frames.reduce((most, { depth }) => Math.max(most, depth + 1), 1);
