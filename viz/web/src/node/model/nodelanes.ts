/** Lanes of a node: bars that stand on each other over time, where a time is in them, and words for it. */

import type { CallSummary, CoreLane, GpuLane, ThreadLane } from '../../shared/api/types';
import { percent } from '../../shared/units/units';

export interface Lane {
  key: string;
  name: string;
  /** The whole of it. */
  title: string;
  parts: readonly Part[];
  /** What is left of an interval. */
  rest: string;
  /** Whether a call is on it. */
  has: (call: CallSummary) => boolean;
}

export interface Part {
  /** Its colour. */
  look: string;
  text: string;
  shares: readonly (number | null)[];
}

export const THREAD_PARTS = [
  ['program', 'in the program'],
  ['kernel', 'in the kernel'],
  ['waited', 'waited for a core'],
] as const;
export const CORE_PARTS = [
  ['program', 'ranks'],
  ['foreign', 'others'],
  ['waited', 'taken by the host'],
] as const;

export const GPU_PARTS = [
  ['program', 'a kernel ran'],
  ['waited', 'a kernel ran, slowed down'],
] as const;

export function threadLane(thread: ThreadLane): Lane {
  const name = thread.thread === 0 ? `rank ${thread.rank}` : `rank ${thread.rank} ${thread.name}`;
  const mask = thread.cpus === '' ? '' : `, may use ${thread.cpus}`;
  const shares = [thread.user, thread.system, thread.waited];
  return {
    key: String(thread.tid),
    name,
    title: `${thread.name}, thread ${thread.tid} of rank ${thread.rank}${mask}`,
    parts: THREAD_PARTS.map(([look, text], at) => ({ look, text, shares: shares[at] ?? [] })),
    rest: 'slept',
    has: (call) => thread.thread === call.thread && thread.rank === call.rank && thread.program === call.program,
  };
}

export function coreLane(core: CoreLane): Lane {
  const shares = [core.own, core.others, core.stolen];
  return {
    key: String(core.cpu),
    name: `core ${core.cpu}`,
    title: `core ${core.cpu}`,
    parts: CORE_PARTS.map(([look, text], at) => ({ look, text, shares: shares[at] ?? [] })),
    rest: 'idle',
    has: () => false,
  };
}

export function gpuLane(gpu: GpuLane): Lane {
  const shares = [gpu.busy, gpu.throttled];
  const facts = [
    gpu.name,
    gpu.memory_total_bytes > 0 && `at most ${gigabytes(gpu.memory_used_bytes)} of ${gigabytes(gpu.memory_total_bytes)} GB used`,
    gpu.power_w > 0 && `${Math.round(gpu.power_w)} W`,
    gpu.temperature_c > 0 && `at most ${gpu.temperature_c} °C`,
  ];
  return {
    key: String(gpu.gpu),
    name: `GPU ${gpu.gpu}`,
    title: `GPU ${gpu.gpu} (${facts.filter((fact) => fact !== false).join(', ')})`,
    parts: GPU_PARTS.map(([look, text], at) => ({ look, text, shares: shares[at] ?? [] })),
    rest: 'no kernel ran',
    has: () => false,
  };
}

const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(1);

/** For each part the outline of its bars, in a box of this size; `M` and so on of SVG. */
export function pathsOf(parts: readonly Part[], width: number, height: number): string[] {
  const columns = parts[0]?.shares.length ?? 0;
  const feet = new Float64Array(columns);
  return parts.map(({ shares }) => {
    let path = '';
    for (let from = 0; from < columns;) {
      const share = shares[from] ?? 0;
      const foot = feet[from] ?? 0;
      let end = from + 1;
      // Intervals that look alike are one bar.
      while (end < columns && (shares[end] ?? 0) === share && feet[end] === foot) end++;
      const x = (from / columns) * width;
      const top = height * (1 - foot - share);
      if (share > 0) path += `M${round(x)} ${round(top)}H${round((end / columns) * width)}V${round(height * (1 - foot))}H${round(x)}Z`;
      feet.fill(foot + share, from, end);
      from = end;
    }
    return path;
  });
}

/** Bars where nothing is known. */
export function unknownPath(parts: readonly Part[], width: number, height: number): string {
  const shares = parts[0]?.shares ?? [];
  return shares
    .map((share, at) =>
      share === null ? `M${round((at / shares.length) * width)} 0h${round(width / shares.length)}v${height}h-${round(width / shares.length)}Z` : '',
    )
    .join('');
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** What a lane did in an interval. */
export function laneText({ parts, rest }: Lane, column: number): string {
  const shares = parts.map(({ shares }) => shares[column] ?? null);
  if (shares.some((share) => share === null)) return 'not sampled';
  const left = 1 - shares.reduce<number>((sum, share) => sum + (share ?? 0), 0);
  const words = parts.map(({ text }, at) => [shares[at] as number, text] as const);
  return [...words, [left, rest] as const]
    .filter(([share]) => share >= 0.005)
    .map(([share, text]) => `${percent(share)} ${text}`)
    .join(', ');
}

/** Mean share of each part, over what is known; null where nothing is. */
export function meansOf({ parts }: Lane): (number | null)[] {
  return parts.map(({ shares }) => {
    const known = shares.filter((share) => share !== null);
    return known.length === 0 ? null : known.reduce((sum, share) => sum + share, 0) / known.length;
  });
}

type Times = readonly [begin: number, end: number];
const LEAST_US = 1000;

/** The same times, longer or shorter by a factor, about a place in them from 0 to 1, within all that there is. */
export function zoomed([begin, end]: Times, whole: Times, factor: number, about = 0.5): Times | null {
  const length = Math.max(LEAST_US, (end - begin) * factor);
  if (length >= whole[1] - whole[0]) return null;
  return within([begin + (end - begin) * about - length * about, length], whole);
}

/** Moved by a share of their length. */
export function moved([begin, end]: Times, whole: Times, share: number): Times {
  return within([begin + share * (end - begin), end - begin], whole);
}

function within([begin, length]: readonly [number, number], whole: Times): Times {
  const from = Math.min(Math.max(begin, whole[0]), Math.max(whole[0], whole[1] - length));
  return [Math.round(from), Math.round(from + length)];
}
