/** Layout of a flame graph: callers above what they call, the widest first. */

import type { Frame } from './frames';

/** Height of a frame, in CSS pixels. */
export const ROW = 20;
/** Least width of a frame; narrower ones are merged. */
const LEAST_PX = 1;

export interface Box {
  /** Index of the frame; for merged frames, that of their caller. */
  index: number;
  depth: number;
  x: number;
  width: number;
  /** Number of frames too narrow to be seen that are merged here; 0 for a frame of its own. */
  merged: number;
  /** Time of the merged frames. */
  merged_us: number;
}

export interface Layout {
  /** Boxes by depth, each row from left to right. */
  rows: Box[][];
  height: number;
}

/**
 * Lay out the frames so that one of them fills the width: its callers are as wide as itself, and what it calls is below.
 *
 * A row has at most as many boxes as pixels.
 */
export function layOut(frames: readonly Frame[], zoomed: number, width: number): Layout {
  const rows: Box[][] = [];
  const add = (box: Box): void => void (rows[box.depth] ??= []).push(box);
  const focus = frames[zoomed];
  if (focus === undefined || focus.total_us <= 0 || width <= 0) return { rows: [], height: 0 };
  const scale = width / focus.total_us;
  const chain: number[] = [];
  for (let at = focus.parent; at >= 0; at = (frames[at] as Frame).parent) chain.push(at);
  for (const index of chain.reverse()) add({ index, depth: (frames[index] as Frame).depth, x: 0, width, merged: 0, merged_us: 0 });
  const open: Box[] = [{ index: zoomed, depth: focus.depth, x: 0, width, merged: 0, merged_us: 0 }];
  // In the order of depth and x, so that rows are filled from left to right.
  for (let next = 0; next < open.length; next++) {
    const box = open[next] as Box;
    add(box);
    const { children } = frames[box.index] as Frame;
    let x = box.x;
    for (let at = 0; at < children.length; at++) {
      const index = children[at] as number;
      const wide = (frames[index] as Frame).total_us * scale;
      if (wide <= 0) break;
      if (wide < LEAST_PX) {
        // The widest come first, so all that follow are as narrow.
        const rest = children.slice(at).filter((one) => (frames[one] as Frame).total_us > 0);
        const merged_us = rest.reduce((sum, one) => sum + (frames[one] as Frame).total_us, 0);
        if (merged_us * scale >= LEAST_PX) add({ index: box.index, depth: box.depth + 1, x, width: merged_us * scale, merged: rest.length, merged_us });
        break;
      }
      open.push({ index, depth: box.depth + 1, x, width: wide, merged: 0, merged_us: 0 });
      x += wide;
    }
  }
  for (const row of rows) row.sort((a, b) => a.x - b.x);
  return { rows, height: rows.length * ROW };
}

/** Return the box at a position of the picture; null where there is none. */
export function boxAt({ rows }: Layout, x: number, y: number): Box | null {
  const row = rows[Math.floor(y / ROW)] ?? [];
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((row[middle] as Box).x <= x) low = middle + 1;
    else high = middle;
  }
  const box = row[low - 1];
  return box !== undefined && x < box.x + box.width ? box : null;
}

export const boxOf = ({ rows }: Layout, index: number, depth: number): Box | null =>
  rows[depth]?.find((box) => box.index === index && box.merged === 0) ?? null;

/** Return the box that an arrow key leads to: the caller, the widest callee, or the neighbour. */
export function neighbour(layout: Layout, frames: readonly Frame[], from: Box, key: string): Box | null {
  const row = layout.rows[from.depth] ?? [];
  const at = row.indexOf(from);
  if (key === 'ArrowLeft') return row[at - 1] ?? null;
  if (key === 'ArrowRight') return row[at + 1] ?? null;
  if (key === 'ArrowUp') return boxOf(layout, from.merged > 0 ? from.index : (frames[from.index] as Frame).parent, from.depth - 1);
  if (key !== 'ArrowDown' || from.merged > 0) return null;
  return (layout.rows[from.depth + 1] ?? []).find((box) => box.x >= from.x && box.x < from.x + from.width) ?? null;
}

export interface TreeLine {
  index: number;
  /** Depth below the frame that is zoomed to. */
  depth: number;
}

/** Return the widest frames below one, in the order of a tree. A caller is at least as wide as its callees, so each comes with its callers. */
export function treeLines(frames: readonly Frame[], zoomed: number, most: number): { lines: TreeLine[]; left: number } {
  const all: TreeLine[] = [];
  const open: TreeLine[] = [{ index: zoomed, depth: 0 }];
  while (open.length > 0) {
    const line = open.pop() as TreeLine;
    const frame = frames[line.index] as Frame;
    if (frame.total_us <= 0) continue;
    all.push(line);
    for (let at = frame.children.length - 1; at >= 0; at--) open.push({ index: frame.children[at] as number, depth: line.depth + 1 });
  }
  if (all.length <= most) return { lines: all, left: 0 };
  const widest = all.map((line, at) => ({ at, us: (frames[line.index] as Frame).total_us })).sort((a, b) => b.us - a.us || a.at - b.at);
  const kept = new Set(widest.slice(0, most).map(({ at }) => at));
  return { lines: all.filter((_, at) => kept.has(at)), left: all.length - most };
}
