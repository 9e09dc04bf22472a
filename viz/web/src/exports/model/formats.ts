/** Files of recorded calls for other tools. */

import { quoted } from '../../shared/asking/commands';
import { filterWords } from '../../shared/asking/filters';
import type { View } from '../../shared/address/model/view';
import type { ExportFormat } from '../../shared/api/types';

/** Command that writes the same; it stands in the folder where the file is to be. */
export function exportCommand(directory: string, { name, ending }: ExportFormat, view: View): string {
  const output = directory.replace(/^.*\//, '') + (ending === '' ? `-${name}` : `.${ending}`);
  return ['chimbuko', 'export', directory, '--format', name, ...filterWords(view), '-o', output].map(quoted).join(' ');
}
