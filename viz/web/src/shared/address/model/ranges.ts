/** Ranges of steps, times, values and ranks, and how they stand in an address. */

import type { RankKey } from '../../api/types';

/** From a value to a larger one, neither of them whole. */
export type Span = readonly [least: number, most: number];
export type Range = readonly [first: number, last: number];
/** A rank, or several of a program that follow each other, as `0:3` or `0:16..31`. */
export type RankRange = string;

/** A rank by itself. */
export const RANK = /^\d{1,9}:\d{1,9}$/;
const RANK_RANGE = /^(?:(\d{1,9}):)?(\d{1,9}(?:\.\.\d{1,9})?)$/;

/** `30`, or `20..30`; null where it is no range. */
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

/** Exact to the µs in an hour. */
export const formatSpan = (span: Span | null): string => (span === null ? '' : span.map((end) => Number(end.toPrecision(10))).join('..'));

/** `0:3`, `0:3..7`, or without a program those of another one; null where it is none of these. */
export function parseRankRange(text: string | undefined, otherwise: string | null = '0'): RankRange | null {
  const [, program = otherwise, numbers] = RANK_RANGE.exec(text ?? '') ?? [];
  const range = parseRange(numbers);
  return range === null || program === null ? null : formatRankRange(Number(program), range);
}

export const formatRankRange = (program: number, range: Range): RankRange => `${program}:${formatRange(range)}`;

/** The rank where it is one; null for several, or none. */
export const oneRank = (wanted: RankRange | null): RankKey | null => (wanted !== null && RANK.test(wanted) ? wanted : null);

/** Its parts. */
export function partsOf(wanted: RankRange): { program: number; ranks: Range } {
  const [program = '', numbers] = wanted.split(':');
  return { program: Number(program), ranks: parseRange(numbers) ?? [0, 0] };
}

export function formatRange(range: Range | null): string {
  if (range === null) return '';
  return range[0] === range[1] ? String(range[0]) : `${range[0]}..${range[1]}`;
}
