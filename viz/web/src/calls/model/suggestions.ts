/** Functions that match a part of a name. */

import { shortenAll, shownName } from '../../shared/names/names';
import { count, duration, plural } from '../../shared/units/units';
import type { FunctionRow } from '../../shared/api/types';

export interface Suggestion {
  name: string;
  text: string;
  detail: string;
}

const MOST = 8;

/** Functions whose names contain the text, or match the pattern: those that begin with it first, then by time lost. */
export function suggested(text: string, rows: readonly FunctionRow[]): Suggestion[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  const pattern = matcher(wanted);
  const begins = (row: FunctionRow): number => ([row.name, shownName(row.name)].some((name) => name.toLowerCase().startsWith(wanted)) ? 0 : 1);
  const found = rows
    .filter((row) => pattern.test(row.name) || pattern.test(shownName(row.name)))
    .sort((a, b) => begins(a) - begins(b) || b.severity_us - a.severity_us)
    .slice(0, MOST);
  const names = shortenAll(
    found.map((row) => row.name),
    40,
  );
  return found.map((row) => ({
    name: row.name,
    text: names.get(row.name)?.text ?? row.name,
    detail: row.anomalies > 0 ? `▲ ${count(row.anomalies)}, ${duration(row.severity_us)} lost` : plural(row.calls, 'call'),
  }));
}

/** Convert a text into the pattern that the filter takes: a name, a pattern, or else a part of a name. */
export function patternOf(typed: string, names: readonly string[]): string {
  const text = typed.trim();
  return text === '' || /[*?]/.test(text) || names.includes(text) ? text : `*${text}*`;
}

/** Regular expression of a search, in which case does not matter. */
function matcher(text: string): RegExp {
  const literal = text.replace(/[\\^$.|+()[\]{}]/g, '\\$&');
  const isPattern = /[*?]/.test(text);
  return new RegExp(isPattern ? `^${literal.replace(/\*/g, '.*').replace(/\?/g, '.')}$` : literal, 'is');
}
