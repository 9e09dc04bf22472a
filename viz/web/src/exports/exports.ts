/** State of the dialog that exports calls, and of the export. */

import { computed, signal } from '@preact/signals';
import { filterQuery } from '../shared/asking/filters';
import type { AnswerFile } from '../shared/api/jobs';
import { getExportFormats } from '../shared/api/requests';
import type { ExportFormat } from '../shared/api/types';
import { view } from '../shared/address/address';
import { Job } from '../shared/session/longquestion';
import { question } from '../shared/session/question';
import { prepare, zero_us } from '../shared/session/session';

export const exportsOpen = signal(false);
export const formats = question(() => (exportsOpen.value ? 'formats' : null), getExportFormats);
const chosen = signal<string | null>(null);
/** The format that was chosen; at first, the first one that this server can write. */
export const format = computed<ExportFormat | undefined>(() => {
  const all = formats.value.value?.formats ?? [];
  return all.find((one) => one.name === chosen.value) ?? all.find((one) => one.is_installed);
});
export const exported = new Job<AnswerFile>();

export function openExports(): void {
  exportsOpen.value = true;
  void prepare();
}

export function choose(name: string): void {
  exported.clear();
  chosen.value = name;
}

/** Export the calls of the filters to a file. */
export function startExport(): void {
  if (format.value === undefined) return;
  exported.clear();
  exported.start({ question: 'export', parameters: { form: format.value.name, ...Object.fromEntries(filterQuery(view.value, zero_us.value)) } });
}

/** Close the dialog, which cancels an export that has not ended. */
export function closeExports(): void {
  exportsOpen.value = false;
  exported.clear();
}
