/** Data of the recurring finding whose page is open, and of its example calls. */

import { computed } from '@preact/signals';
import * as api from '../shared/api/requests';
import { view } from '../shared/address/address';
import { isRecurring } from '../shared/address/model/view';
import { question } from '../shared/session/question';

/** Examples that are shown with their windows; all of them have links. */
const MOST_WINDOWS = 3;

const wanted = computed(() => (view.value.page === 'incident' && isRecurring(view.value.incident) ? view.value.incident : null));

export const finding = question(
  () => wanted.value,
  (signal) => api.getRecurrence(wanted.value as string, signal),
  { live: true },
);

const known = computed(() => (wanted.value === null ? null : (finding.value.value?.summary.recurrence ?? null)));

/** Function of the finding; null where it is not about a single one. */
export const recurringFunction = computed(() => {
  const one = known.value;
  return one === null || one.function === '' ? null : { program: one.program, name: one.function };
});

const shownExamples = computed(() => known.value?.examples.slice(0, MOST_WINDOWS) ?? []);
export const examples = question(
  () => shownExamples.value.join(' ') || null,
  (signal) => Promise.all(shownExamples.value.map((id) => api.getCall(id, signal))),
);
