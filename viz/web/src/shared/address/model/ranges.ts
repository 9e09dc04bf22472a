/** Ranges of steps, times, values and ranks, and their form in an address. */

import type { RankKey } from '../../api/types';

/** Range of real values. */
export type Span = readonly [least: number, most: number];
export type Range = readonly [first: number, last: number];
/** One rank or consecutive ranks of a program, such as `0:3` or `0:16..31`. */
export type RankRange = string;

/** Pattern of a single rank. */
export const RANK = /^\d{1,9}:\d{1,9}$/;
const RANK_RANGE = /^(?:(\d{1,9}):)?(\d{1,9}(?:\.\.\d{1,9})?)$/;

/** Parse `30` or `20..30`; null for anything else. */
export function parseRange(text: string | undefined): Range | null {
  const match = /^(\d{1,12})(?:\.\.(\d{1,12}))?$/.exec(text ?? '');
  if (!match) return null;
  const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
  return first <= last ? [first, last] : null;
}

export function parseSpan(text: string | undefined): Span | null {
  const [least = NaN, most = NaN] = (text ?? '').split('..').map((end) => (end === '' ? NaN : Number(end)));
  return Number.isFinite(least) && Number.isFinite(most) && least < most ? [least, most] : null;
}

/** Format a span with enough digits for a microsecond in an hour. */
export const formatSpan = (span: Span | null): string => (span === null ? '' : span.map((end) => Number(end.toPrecision(10))).join('..'));

/** Parse `0:3` or `0:3..7`; ranks without a program belong to `otherwise`. Null for anything else. */
export function parseRankRange(text: string | undefined, otherwise: string | null = '0'): RankRange | null {
  const [, program = otherwise, numbers] = RANK_RANGE.exec(text ?? '') ?? [];
  const range = parseRange(numbers);
  return range === null || program === null ? null : formatRankRange(Number(program), range);
}

export const formatRankRange = (program: number, range: Range): RankRange => `${program}:${formatRange(range)}`;

/** The rank, where it is a single one; null for several or none. */
export const oneRank = (wanted: RankRange | null): RankKey | null => (wanted !== null && RANK.test(wanted) ? wanted : null);

/** Program and numbers of the ranks. */
export function partsOf(wanted: RankRange): { program: number; ranks: Range } {
  const [program = '', numbers] = wanted.split(':');
  return { program: Number(program), ranks: parseRange(numbers) ?? [0, 0] };
}

export function formatRange(range: Range | null): string {
  if (range === null) return '';
  return range[0] === range[1] ? String(range[0]) : `${range[0]}..${range[1]}`;
}
