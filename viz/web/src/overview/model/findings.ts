/** What is wrong in published quantities, incidents and what recurs as one list: the former first, since they lose no time, and then by cost. */

import type { IncidentsAnswer, IncidentSummary, MetricFinding, RecurrenceSummary } from '../../shared/api/types';

export type Finding =
  | { kind: 'metric'; cost_us: null; metric: MetricFinding }
  | { kind: 'incident'; cost_us: number; incident: IncidentSummary }
  | { kind: 'recurring'; cost_us: number; recurring: RecurrenceSummary };

export function findingsOf({ incidents, recurrences, metrics }: Pick<IncidentsAnswer, 'incidents' | 'recurrences' | 'metrics'>): Finding[] {
  const found: Finding[] = [
    ...incidents.map((incident): Finding => ({ kind: 'incident', cost_us: incident.cost_us, incident })),
    ...recurrences.map((recurring): Finding => ({ kind: 'recurring', cost_us: recurring.recurrence.cost_us, recurring })),
  ];
  found.sort((a, b) => (b.cost_us ?? 0) - (a.cost_us ?? 0));
  return [...metrics.map((metric): Finding => ({ kind: 'metric', cost_us: null, metric })), ...found];
}

/** What it says for itself, whatever it is. */
export function summaryOf(one: Finding): { id: string; sentence: string } {
  if (one.kind === 'metric') return one.metric;
  return one.kind === 'incident' ? one.incident : one.recurring;
}

/** Tells one from the others. */
export const findingKey = (one: Finding): string => summaryOf(one).id;
