/** What is said of a recorded call, on whatever page. */

import type { CallRecord, CallSummary, CounterValue, Run } from '../api/types';

/** The runtime by which a call is judged; while it is open, its time so far. */
export function judgedUs(call: CallSummary, metric: Run['config']['metric']): number {
  return metric === 'inclusive' || call.exit_us === 0 ? call.inclusive_us : call.exclusive_us;
}

/** Slower or faster than usual, or normal. */
export function signOf(call: CallSummary, metric: Run['config']['metric']): '▲' | '▼' | '○' {
  if (call.label !== 'anomaly') return '○';
  return judgedUs(call, metric) < call.expected_us ? '▼' : '▲';
}

/** The last value of each counter. */
export function lastValues(values: readonly CounterValue[]): Map<string, number> {
  return new Map(values.map((counter) => [counter.counter, counter.value]));
}

/** Counters of the window that were recorded inside the call itself, the last value of each. */
export const ownCounters = (record: CallRecord): Map<string, number> => lastValues(record.counters.filter((counter) => counter.call_id === record.id));
