/** Data of the call whose page is open: its incident, totals of its rank's counters, and the rank's metadata. */

import { computed } from '@preact/signals';
import * as api from '../shared/api/functionrequests';
import { getIncident } from '../shared/api/requests';
import { view } from '../shared/address/address';
import { detail } from '../calls/calls';
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

const called = computed(() => (view.value.page === 'call' ? view.value.call : null));

/** Activity of the node around the call. */
export const beside = question(
  () => called.value,
  (signal) => api.getBeside(called.value as string, signal),
  { live: true },
);

const incidentOf = computed(() => {
  const record = detail.value.value?.record;
  return view.value.page === 'call' && record?.id === view.value.call ? record?.incident_id || null : null;
});

/** Incident that the call is part of. */
export const incident = question(
  () => incidentOf.value,
  (signal) => getIncident(incidentOf.value as string, signal),
  { live: true },
);
