/** Headline of a run: what was slow, what it cost, and where. */

import { computed } from '@preact/signals';
import { incidentsAnswer, metricsAnswer, overviewAnswer, type Whole } from '../shared/names/answer';
import { view } from '../shared/address/address';
import { programs, run } from '../shared/session/session';
import { budget, functions, incidents, ranking } from './overview';
import type { Run } from '../shared/api/types';

/** Sentence at the top of the overview; why there is none where the server does not answer. */
export const headline = computed(() => {
  const known = run.value.value;
  return known === null ? (run.error.value ?? '') : answerOf(known);
});

function answerOf(known: Run): string {
  // Whole, or nothing: a sentence that grows would move what is below.
  if ([incidents, budget, ...(view.value.page === 'overview' ? [ranking, functions] : [])].some((of) => of.isUnanswered.value)) return '';
  const found = incidents.value.value;
  if (found === null) return overviewAnswer(known);
  const slow = found.incidents.length + found.recurrences.length === 0 ? overviewAnswer(known) : incidentsAnswer(found, programs.value, whole.value);
  return [...metricsAnswer(found), slow].join(' ');
}

/** Function and rank because of which most was lost, if the lists are by that, and the time of all threads. */
const whole = computed<Whole>(() => {
  const known = budget.value.value?.budget ?? null;
  const [ranks, names] = [ranking.value.value, functions.value.value];
  const rank = ranks?.by === 'origin' ? ranks.top[0] : undefined;
  const name = names?.by === 'origin' ? names.top[0] : undefined;
  return {
    total_us: known === null || known.threads === 0 ? null : known.total_us,
    rank:
      rank === undefined || rank.value <= 0 || (ranks?.ranks ?? 0) < 2 ? null : { key: `${rank.program}:${rank.rank}`, lost_us: rank.value, bound: rank.bound },
    function: name === undefined || name.value <= 0 ? null : { name: name.name, lost_us: name.value, bound: name.bound },
  };
});
