/** What the overview asks. */

import * as api from '../net/api';
import { view } from './address';
import { question } from './question';

const isOpen = (): boolean => view.value.page === 'overview';

export const ranking = question(
  () => (isOpen() ? `${view.value.statistic} ${view.value.n}` : null),
  (signal) => api.getRanks(view.value.statistic, view.value.n, signal),
  { live: true, keep: true },
);
export const functions = question(() => (isOpen() ? '' : null), api.getFunctions, { live: true, keep: true });
