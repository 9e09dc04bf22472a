/** All findings as one list: those about published quantities first, since they have no cost, then incidents, recurring findings and findings about nodes by cost. */

import type { Bound, IncidentsAnswer, IncidentSummary, MetricFinding, NodeCost, RecurrenceSummary } from '../../shared/api/types';

export type Finding =
  | { kind: 'metric'; cost_us: null; bound?: never; metric: MetricFinding }
  | { kind: 'incident'; cost_us: number; bound: Bound; incident: IncidentSummary }
  | { kind: 'recurring'; cost_us: number; bound?: never; recurring: RecurrenceSummary }
  | { kind: 'node'; cost_us: number; bound?: never; node: NodeCost };

export function findingsOf({ incidents, recurrences, metrics, nodes }: Pick<IncidentsAnswer, 'incidents' | 'recurrences' | 'metrics' | 'nodes'>): Finding[] {
  const found: Finding[] = [
    ...incidents.map((incident): Finding => ({ kind: 'incident', cost_us: incident.cost_us, bound: incident.bound, incident })),
    ...recurrences.map((recurring): Finding => ({ kind: 'recurring', cost_us: recurring.recurrence.cost_us, recurring })),
    ...nodes.map((node): Finding => ({ kind: 'node', cost_us: node.cost_us, node })),
  ];
  found.sort((a, b) => (b.cost_us ?? 0) - (a.cost_us ?? 0));
  return [...metrics.map((metric): Finding => ({ kind: 'metric', cost_us: null, metric })), ...found];
}

/** Id and sentence of a finding of any kind. */
export function summaryOf(one: Finding): { id: string; sentence: string } {
  if (one.kind === 'metric') return one.metric;
  if (one.kind === 'node') return { id: `node ${one.node.node}`, sentence: one.node.sentence };
  return one.kind === 'incident' ? one.incident : one.recurring;
}

/** Key of a finding in a list. */
export const findingKey = (one: Finding): string => summaryOf(one).id;
