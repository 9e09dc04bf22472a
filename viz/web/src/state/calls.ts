/** Lists of calls, and the call that is looked at. */

import { computed } from '@preact/signals';
import * as api from '../net/api';
import { view } from './address';
import { question } from './question';

const filters = computed(() => {
  const { function: name, rank, severity_us, steps, sort, descending, cursor } = view.value;
  return JSON.stringify([name, rank, severity_us, steps, sort, descending, cursor]);
});

/** The abnormal calls that match the filters, a page of them; calls before and after one are found in it. */
export const calls = question(
  () => (view.value.page === 'compare' ? null : filters.value),
  (signal) => api.getCalls(view.value, signal),
  { live: true, keep: true },
);

const detailOf = computed(() => (view.value.page === 'call' ? view.value.call : null));

/** Everything kept about the call whose page is open. */
export const detail = question(() => detailOf.value, (signal) => api.getCall(detailOf.value as string, signal));
