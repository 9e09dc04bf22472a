/** The rank that the call ran on whose page is open: what is usual of its counters, and what it says of itself. */

import { computed } from '@preact/signals';
import * as api from '../shared/api/functionrequests';
import { view } from '../shared/address/address';
import { question } from '../shared/session/question';

const place = computed(() => (view.value.page === 'call' && view.value.call !== null ? view.value.call.split(':').slice(0, 2).join(':') : null));
const numbers = (): [program: number, rank: number] => (place.value as string).split(':').map(Number) as [number, number];

export const counters = question(
  () => place.value,
  (signal) => api.getCounters(...numbers(), signal),
  { live: true },
);
export const metadata = question(
  () => place.value,
  (signal) => api.getMetadata(...numbers(), signal),
  { live: true },
);
