/** Chart of a node: lanes over time, in each of which shares of the time stand on each other, and the words for them. */

import type { CallSummary } from '../../shared/api/types';
import { percent } from '../../shared/units/units';

/** Everything the page needs to know of one chart. The page asks for `nodes/NODE/NAME` and draws what comes. */
export interface NodeChart<Answer extends LanesAnswer = LanesAnswer> {
  /** Its name in the API, in the address (`NAME_from`) and of its panel (`node-NAME`). */
  name: string;
  title: string;
  /** Meanings of the shares of each lane, from the foot of a bar to its top. */
  bands: readonly Band[];
  /** Activity of a lane in the time that no band covers. */
  rest: string;
  /** Whether there is no panel while there are no lanes. */
  isHiddenWhenEmpty: boolean;
  // A method, so that charts of different answers fit into one list.
  lanesOf(answer: Answer): readonly Lane[];
}

/** Fields that the answers for all charts have in common: charts with many lanes come page by page. */
export interface LanesAnswer {
  ok: boolean;
  next?: string | null;
  total?: number;
}

export interface Band {
  /** Style of the band, in `call.css` and `node.css`. */
  colour: 'program' | 'kernel' | 'waited' | 'foreign';
  text: string;
}

export interface Lane {
  key: string;
  name: string;
  /** Its name with everything that is known of it. */
  title: string;
  /** For each band its share of each interval; null where nothing was sampled. */
  shares: readonly Shares[];
  /** Whether a call ran on this lane; without it, no call does. */
  ran?: (call: CallSummary) => boolean;
}

type Shares = readonly (number | null)[];

/** SVG path of the bars of each band, in a box of this size. */
export function pathsOf({ shares: bands }: Lane, width: number, height: number): string[] {
  const columns = bands[0]?.length ?? 0;
  const feet = new Float64Array(columns);
  return bands.map((shares) => {
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

/** SVG path of the intervals in which nothing was sampled. */
export function unknownPath({ shares: bands }: Lane, width: number, height: number): string {
  const shares = bands[0] ?? [];
  return shares
    .map((share, at) =>
      share === null ? `M${round((at / shares.length) * width)} 0h${round(width / shares.length)}v${height}h-${round(width / shares.length)}Z` : '',
    )
    .join('');
}

const round = (value: number): number => Math.round(value * 10) / 10;

type Words = Pick<NodeChart, 'bands' | 'rest'>;

/** Activity of a lane in one interval, in words. */
export const intervalText = (chart: Words, lane: Lane, column: number): string =>
  sharesText(
    chart,
    lane.shares.map((shares) => shares[column] ?? null),
  );

/** Average activity of a lane, in words. */
export const meanText = (chart: Words, lane: Lane): string => sharesText(chart, meansOf(lane));

function sharesText({ bands, rest }: Words, shares: Shares): string {
  const left = restOf(shares);
  if (left === null) return 'not sampled';
  const words = bands.map(({ text }, at) => [shares[at] ?? 0, text] as const);
  return [...words, [left, rest] as const]
    .filter(([share]) => share >= 0.005)
    .map(([share, text]) => `${percent(share)} ${text}`)
    .join(', ');
}

/** Mean share of each band over the intervals that were sampled; null where none was. */
export function meansOf({ shares: bands }: Lane): (number | null)[] {
  return bands.map((shares) => {
    const known = shares.filter((share) => share !== null);
    return known.length === 0 ? null : known.reduce((sum, share) => sum + share, 0) / known.length;
  });
}

/** Share that no band covers; null where nothing was sampled. */
export function restOf(shares: Shares): number | null {
  if (shares.some((share) => share === null)) return null;
  return 1 - shares.reduce<number>((sum, share) => sum + (share ?? 0), 0);
}
