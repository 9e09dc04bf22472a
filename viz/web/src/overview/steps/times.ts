/** Time of threads over the steps that are shown: of the selected ranks, or of all. */

import { computed } from '@preact/signals';
import { summaryOf, findingsOf } from '../model/findings';
import { stepTimesRequest } from './requests';
import { view } from '../../shared/address/address';
import type { Course } from '../../shared/address/model/view';
import { get } from '../../shared/api/http';
import type { Request } from '../../shared/api/request';
import type { StepTimesAnswer } from '../../shared/api/types';
import { question } from '../../shared/session/question';
import { shownSteps } from '../heatmap/grid';
import { incidents } from '../overview';
import { totalOf, type Happened } from './model/timelayout';

/** Request for what is shown. */
export const timesAsked = computed<Request>(() =>
  stepTimesRequest(
    view.value.selected.filter((rank) => rank !== null),
    shownSteps.value,
  ),
);
const timesKey = computed(() => (view.value.page === 'overview' ? JSON.stringify(timesAsked.value) : null));

export const times = question<StepTimesAnswer>(
  () => timesKey.value,
  (signal) => get(...timesAsked.peek(), signal),
  { live: true, keep: true },
);

/** What is shown over steps: single ranks also where nothing else is on record, as of a run that was imported. */
export const course = computed<Course>(() => {
  const known = times.value.value?.times.times;
  return known !== undefined && known.every((one) => totalOf(one) === 0) ? 'ranks' : view.value.course;
});

/** Incidents and findings that began at some time. */
export const happened = computed<Happened[]>(() =>
  (incidents.value.value === null ? [] : findingsOf(incidents.value.value)).flatMap((one): Happened[] => {
    if (one.kind === 'incident') return [{ id: one.incident.id, time_us: one.incident.begin_us, text: summaryOf(one).sentence }];
    if (one.kind === 'metric' && one.metric.finding.begin_us > 0)
      return [{ id: one.metric.id, time_us: one.metric.finding.begin_us, text: summaryOf(one).sentence }];
    return [];
  }),
);
