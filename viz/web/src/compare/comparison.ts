/** Runs to compare with, and the comparison with those that are chosen. */

import { computed, effect } from '@preact/signals';
import { getAllPaths } from '../shared/api/functionrequests';
import * as api from '../shared/api/requests';
import { view } from '../shared/address/address';
import { job } from '../shared/session/longquestion';
import { question } from '../shared/session/question';
import { prepare } from '../shared/session/session';
import type { ComparisonAnswer } from '../shared/api/types';

const before = computed(() => (view.value.page === 'compare' ? view.value.compare : null));

export const runs = question(() => (before.value === null ? null : ''), api.getRuns);
// A user who is choosing a run asks for the comparison next.
effect(() => {
  if (before.value === '') void prepare();
});

/** Call paths of this run, for the flame graph of changes. */
export const paths = question(
  () => (before.value ? 'paths' : null),
  (signal) => getAllPaths(null, signal),
);

export const comparison = job<ComparisonAnswer>(
  () => (before.value ? `${before.value}\n${view.value.also}` : null),
  () => ({ question: 'comparison', parameters: { with: before.value, ...(view.value.also === '' ? {} : { also: view.value.also }) } }),
);
