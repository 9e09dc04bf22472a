/** Commands that show the content of a page in the terminal. */

import { filterWords } from './filters';
import type { Subject } from '../api/functionrequests';
import type { ExportFormat } from '../api/types';
import { FIRST_VIEW, type View } from '../address/model/view';

/** Command that lists the calls of a table; without a limit, as many as the command lists by default. */
export function queryCommand(directory: string, view: View, limit: number | null = null): string {
  const words = ['chimbuko', 'query', directory, ...filterWords(view), '--sort', view.sort];
  if (!view.descending) words.push('--ascending');
  if (view.cursor !== null) words.push('--cursor', view.cursor);
  if (limit !== null) words.push('--limit', String(limit));
  return words.map(quoted).join(' ');
}

/** Command that lists the worst calls of a function. */
export function functionCommand(directory: string, { program, name }: Subject, limit: number): string {
  return ['chimbuko', 'query', directory, '--function', name, '--program', String(program), '--limit', String(limit)].map(quoted).join(' ');
}

/** Command that prints everything that is kept about a call or an incident. */
export function showCommand(directory: string, id: string): string {
  return `chimbuko show ${quoted(directory)} ${id}`;
}

/** Command that lists incidents, the most costly first. */
export function incidentsCommand(directory: string, limit: number): string {
  return `chimbuko incidents ${quoted(directory)} --limit ${limit}`;
}

/** Command that compares this run, and further runs on its side, with other runs in the same parent folder. */
export function compareCommand(directory: string, before: readonly string[], also: readonly string[]): string {
  const paths = (folders: readonly string[]): string[] => folders.map((folder) => quoted(directory.replace(/[^/]*$/, folder)));
  if (before.length + also.length === 1) return `chimbuko compare ${paths(before).join()} ${quoted(directory)}`;
  const sides = [...paths(before).map((path) => `--before ${path}`), ...[quoted(directory), ...paths(also)].map((path) => `--after ${path}`)];
  return `chimbuko compare ${sides.join(' ')}`;
}

/** Command that lists what is known of nodes. */
export function nodesCommand(directory: string): string {
  return `chimbuko nodes ${quoted(directory)}`;
}

/** Command that lists the names of all functions. */
export function functionsCommand(directory: string): string {
  return sqlCommand(directory, 'SELECT DISTINCT name FROM functions ORDER BY name');
}

/** Command that lists all recorded calls, of a rank and step where they are given. */
export function callsCommand(directory: string, some: Partial<View> = {}): string {
  return queryCommand(directory, { ...FIRST_VIEW, ...some });
}

/** Command that queries the run's database. */
export function sqlCommand(directory: string, sql: string): string {
  return `chimbuko sql ${quoted(directory)} ${quoted(sql)}`;
}

/** Command that exports the calls of a view's filters to a file in the current folder. */
export function exportCommand(directory: string, { name, ending }: ExportFormat, view: View): string {
  const output = directory.replace(/^.*\//, '') + (ending === '' ? `-${name}` : `.${ending}`);
  return ['chimbuko', 'export', directory, '--format', name, ...filterWords(view), '-o', output].map(quoted).join(' ');
}

/** Quote a word for a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
