/** Formats in which recorded calls are exported. */

import { quoted } from '../../shared/asking/commands';
import { filterWords } from '../../shared/asking/filters';
import type { View } from '../../shared/address/model/view';
import type { ExportFormat } from '../../shared/api/types';

/** Command that writes the same file, to the current folder. */
export function exportCommand(directory: string, { name, ending }: ExportFormat, view: View): string {
  const output = directory.replace(/^.*\//, '') + (ending === '' ? `-${name}` : `.${ending}`);
  return ['chimbuko', 'export', directory, '--format', name, ...filterWords(view), '-o', output].map(quoted).join(' ');
}
