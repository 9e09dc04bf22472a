import { expect, test } from 'vitest';
import { findingKey, findingsOf } from '../../../src/overview/model/findings';
import type { IncidentSummary, MetricFinding, RecurrenceSummary } from '../../../src/shared/api/types';

const incident = (id: string, cost_us: number) => ({ id, cost_us }) as IncidentSummary;
const recurring = (sentence: string, cost_us: number) => ({ id: sentence, sentence, recurrence: { kind: 'interruptions', cost_us } }) as RecurrenceSummary;

const metric = (id: string) => ({ id }) as MetricFinding;

test('what recurs stands among incidents by its cost', () => {
  const found = findingsOf({
    incidents: [incident('I2', 900), incident('I1', 100)],
    recurrences: [recurring('again', 500), recurring('and again', 50)],
    metrics: [metric('M1')],
  });
  expect(found.map((one) => one.cost_us)).toEqual([null, 900, 500, 100, 50]);
  expect(new Set(found.map(findingKey)).size).toBe(5);
});
