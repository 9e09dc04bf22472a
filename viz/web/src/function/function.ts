/** Data of one function: the one whose page is open, or that of the call whose page is open. */

import { computed } from '@preact/signals';
import type { Subject } from '../shared/api/functionrequests';
import { MOST_COLUMNS } from './model/trend';
import * as api from '../shared/api/functionrequests';
import { view } from '../shared/address/address';
import { detail } from '../calls/calls';
import { recurringFunction } from '../incident/recurringfinding';
import { question } from '../shared/session/question';
import { status } from '../shared/session/session';

const named = computed<api.Named | null>(() => {
  const { page, call, function: name, program } = view.value;
  if (page === 'function') return name === '' ? null : { program, name };
  if (page === 'incident') return recurringFunction.value;
  const record = page === 'call' ? detail.value.value?.record : undefined;
  return record?.id === call && record !== undefined ? { program: record.program, name: record.function } : null;
});
const keyOf = (of: api.Named | null): string | null => (of === null ? null : `${of.program} ${of.name}`);

/** Statistics of the function, and the distribution of its runtimes. */
export const known = question(
  () => keyOf(named.value),
  (signal) => api.getFunction(named.value as api.Named, signal),
  { live: true },
);

/** The function whose page is open, once its program is known. */
export const subject = computed<Subject | null>(() => {
  const name = named.value?.name;
  const found = known.value.value?.statistics;
  return view.value.page === 'function' && found !== undefined && found.name === name ? { program: found.program, name: found.name } : null;
});
const subjectKey = computed(() => keyOf(subject.value));
const asked = (): Subject => subject.value as Subject;

/** Whether the trend is by step, as long as each step can have a column of its own, or by time. */
export const trendBy = computed<'step' | 'time'>(() => ((status.value?.last_step ?? 0) < MOST_COLUMNS ? 'step' : 'time'));
export const trend = question(
  () => subjectKey.value && `${trendBy.value} ${subjectKey.value}`,
  (signal) => api.getTrend(asked(), trendBy.value, signal),
  { live: true },
);
export const byRank = question(
  () => ((status.value?.ranks ?? 0) > 1 ? subjectKey.value : null),
  (signal) => api.getFunctionByRank(asked(), signal),
  { live: true },
);
export const ranks = question(
  () => subjectKey.value,
  (signal) => api.getRanks(asked(), signal),
  { live: true },
);
export const paths = question(
  () => subjectKey.value,
  (signal) => api.getPaths(asked(), signal),
  { live: true },
);
export const worst = question(
  () => subjectKey.value,
  (signal) => api.getWorst(asked(), signal),
  { live: true },
);
