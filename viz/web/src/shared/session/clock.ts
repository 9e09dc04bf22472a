/** Times as the reader wants them: since the run's start, or as a clock on the wall showed them. */

import { clock, sinceStart, wallTime } from '../units/units';
import { zero_us } from './session';
import { wallTimes } from './settings';

/** A time of the trace, to the millisecond. */
export const timeText = (us: number): string => (wallTimes.value ? `${wallTime(us)} Z` : sinceStart(us - zero_us.value));

/** The same on an axis, to the second. */
export const tickText = (us: number): string => (wallTimes.value ? wallTime(us, 0) : clock(us - zero_us.value));
