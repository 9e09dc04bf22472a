/** The dialog that exports calls, and the file that comes of it. */

import { signal } from '@preact/signals';
import { FORMATS, type Format } from './model/formats';
import { filterQuery } from '../shared/asking/filters';
import type { AnswerFile } from '../shared/api/jobs';
import { view } from '../shared/address/address';
import { Job } from '../shared/session/longquestion';
import { prepare, zero_us } from '../shared/session/session';

export const exportsOpen = signal(false);
export const format = signal<Format>(FORMATS[0][0]);
export const exported = new Job<AnswerFile>();

export function openExports(): void {
  exportsOpen.value = true;
  void prepare();
}

/** Write the calls of the filters into a file. */
export function startExport(): void {
  exported.clear();
  exported.start({ question: 'export', parameters: { form: format.value, ...Object.fromEntries(filterQuery(view.value, zero_us.value)) } });
}

/** Closing ends what is on its way. */
export function closeExports(): void {
  exportsOpen.value = false;
  exported.clear();
}
