/** Headline of a run: what was slow, what it cost, and where. */

import { computed } from '@preact/signals';
import { incidentsAnswer, metricsAnswer, overviewAnswer } from '../shared/names/answer';
import { programs, run } from '../shared/session/session';
import { incidents } from './overview';
import type { Run } from '../shared/api/types';

/** Sentence at the top of the overview; why there is none where the server does not answer. */
export const headline = computed(() => {
  const known = run.value.value;
  return known === null ? (run.error.value ?? ' ') : answerOf(known);
});

function answerOf(known: Run): string {
  const found = incidents.value.value;
  if (found === null) return overviewAnswer(known);
  const slow = found.incidents.length + found.recurrences.length === 0 ? overviewAnswer(known) : incidentsAnswer(found, programs.value);
  return [...metricsAnswer(found), slow].join(' ');
}
