/** Files of recorded calls for other tools. */

import { quoted } from '../../shared/asking/commands';
import { filterWords } from '../../shared/asking/filters';
import type { View } from '../../shared/address/model/view';

/** Each format: how it is called, what opens it, and how its file's name ends. */
export const FORMATS = [
  ['perfetto', 'timeline for ui.perfetto.dev', '.pftrace'],
  ['chrome', 'timeline for chrome://tracing and others', '.chrome.json'],
  ['speedscope', 'call stacks for speedscope.app', '.speedscope.json'],
  ['parquet', 'tables for notebooks and databases', ''],
  ['v2', "records in JSON, as Chimbuko's version 2 wrote them", ''],
] as const;
export type Format = (typeof FORMATS)[number][0];

/** Command that writes the same; it stands in the folder where the file is to be. */
export function exportCommand(directory: string, format: Format, view: View): string {
  const ending = FORMATS.find(([name]) => name === format)?.[2] || `-${format}`;
  const output = directory.replace(/^.*\//, '') + ending;
  return ['chimbuko', 'export', directory, '--format', format, ...filterWords(view), '-o', output].map(quoted).join(' ');
}
