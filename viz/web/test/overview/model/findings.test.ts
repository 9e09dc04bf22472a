import { expect, test } from 'vitest';
import { findingKey, findingsOf } from '../../../src/overview/model/findings';
import type { IncidentSummary, MetricFinding, NodeCost, RecurrenceSummary } from '../../../src/shared/api/types';

const incident = (id: string, cost_us: number) => ({ id, cost_us }) as IncidentSummary;
const recurring = (sentence: string, cost_us: number) => ({ id: sentence, sentence, recurrence: { kind: 'interruptions', cost_us } }) as RecurrenceSummary;

const metric = (id: string) => ({ id }) as MetricFinding;

const node = (name: string, cost_us: number) => ({ node: name, sentence: name, cost_us }) as NodeCost;

test('what recurs and what nodes cost stand among incidents by their cost', () => {
  const found = findingsOf({
    incidents: [incident('I2', 900), incident('I1', 100)],
    recurrences: [recurring('again', 500), recurring('and again', 50)],
    metrics: [metric('M1')],
    nodes: [node('node7', 700)],
  });
  expect(found.map((one) => one.cost_us)).toEqual([null, 900, 700, 500, 100, 50]);
  expect(new Set(found.map(findingKey)).size).toBe(6);
});
