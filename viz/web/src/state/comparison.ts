/** Other runs, and what changed since one of them. */

import { computed } from '@preact/signals';
import * as api from '../net/api';
import { view } from './address';
import { question } from './question';

const before = computed(() => (view.value.page === 'compare' ? view.value.compare : null));

export const runs = question(() => (before.value === '' ? '' : null), api.getRuns);
export const comparison = question(
  () => before.value || null,
  (signal) => api.getComparison(before.value as string, signal),
);
