/** Times in the form that the user has chosen: since the run's start, or as time of day. */

import { clock, sinceStart, wallTime } from '../units/units';
import { zero_us } from './session';
import { wallTimes } from './settings';

/** Time of the trace, to the millisecond. */
export const timeText = (us: number): string => (wallTimes.value ? `${wallTime(us)} Z` : sinceStart(us - zero_us.value));

/** Time on an axis, to the second. */
export const tickText = (us: number): string => (wallTimes.value ? wallTime(us, 0) : clock(us - zero_us.value));
