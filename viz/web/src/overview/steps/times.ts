/** Time of threads over the steps that are shown: of the selected ranks, or of all. */

import { computed } from '@preact/signals';
import { stepTimesRequest } from './requests';
import { view } from '../../shared/address/address';
import type { Range } from '../../shared/address/model/ranges';
import type { Course } from '../../shared/address/model/view';
import { get } from '../../shared/api/http';
import { isReport } from '../../shared/api/report';
import type { Request } from '../../shared/api/request';
import type { StepTimesAnswer } from '../../shared/api/types';
import { question } from '../../shared/session/question';
import { shownSteps } from '../heatmap/grid';
import { totalOf } from './model/timelayout';

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

/** Begin and end of the chosen steps, in µs since the epoch, as far as their times are known; null without a choice. */
export const chosenTimes = computed<Range | null>(() => {
  const { steps } = view.value;
  const known = times.value.value?.times;
  // A report has the findings of the whole run only.
  if (steps === null || known === undefined || isReport) return null;
  const chosen = known.times.filter((one) => one.step + known.length > steps[0] && one.step <= steps[1]);
  const [first, last] = [chosen[0], chosen[chosen.length - 1]];
  return first === undefined || last === undefined ? null : [first.start_us, last.end_us];
});
