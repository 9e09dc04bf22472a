/** The same question in the terminal. */

import type { View } from './view';

/** Command that lists what the table of calls shows. */
export function queryCommand(directory: string, view: View): string {
  const words = ['chimbuko', 'query', quoted(directory)];
  if (view.function !== '') words.push('--function', quoted(view.function));
  const [program, rank] = view.rank?.split(':') ?? [];
  if (program !== undefined && rank !== undefined) words.push('--program', program, '--rank', rank);
  if (view.severity_us > 0) words.push('--min-severity', `${view.severity_us}us`);
  if (view.steps !== null) words.push('--step', view.steps[0] === view.steps[1] ? String(view.steps[0]) : view.steps.join(':'));
  words.push('--sort', view.sort);
  if (!view.descending) words.push('--ascending');
  return words.join(' ');
}

/** Command that prints everything kept of one call. */
export function showCommand(directory: string, id: string): string {
  return `chimbuko show ${id} ${quoted(directory)}`;
}

/** Command that compares this run with one in a folder beside it. */
export function compareCommand(directory: string, before: string): string {
  return `chimbuko compare ${quoted(directory.replace(/[^/]*$/, before))} ${quoted(directory)}`;
}

/** Command that asks the run's database. */
export function sqlCommand(directory: string, sql: string): string {
  return `chimbuko sql ${quoted(directory)} ${quoted(sql)}`;
}

/** A word as a POSIX shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
