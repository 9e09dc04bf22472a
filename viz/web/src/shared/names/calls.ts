/** Facts about recorded calls that several pages show. */

import type { CallRecord, CallSummary, CounterValue, Run } from '../api/types';

/** Runtime by which a call is judged; for a call that has not ended, its time so far. */
export function judgedUs(call: CallSummary, metric: Run['config']['metric']): number {
  return metric === 'inclusive' || call.exit_us === 0 ? call.inclusive_us : call.exclusive_us;
}

/** Mark of a call: slower or faster than usual, or normal. */
export function signOf(call: CallSummary, metric: Run['config']['metric']): '▲' | '▼' | '○' {
  if (call.label !== 'anomaly') return '○';
  return judgedUs(call, metric) < call.expected_us ? '▼' : '▲';
}

/** Last value of each counter. */
export function lastValues(values: readonly CounterValue[]): Map<string, number> {
  return new Map(values.map((counter) => [counter.counter, counter.value]));
}

/** Last values of the counters that were recorded inside the call itself. */
export const ownCounters = (record: CallRecord): Map<string, number> => lastValues(record.counters.filter((counter) => counter.call_id === record.id));
