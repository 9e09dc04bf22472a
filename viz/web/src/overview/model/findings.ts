/** Incidents and what recurs as one list, by what they cost. */

import type { IncidentsAnswer, IncidentSummary, RecurrenceSummary } from '../../shared/api/types';

export type Finding = { kind: 'incident'; cost_us: number; incident: IncidentSummary } | { kind: 'recurring'; cost_us: number; recurring: RecurrenceSummary };

export function findingsOf({ incidents, recurrences }: Pick<IncidentsAnswer, 'incidents' | 'recurrences'>): Finding[] {
  const found: Finding[] = [
    ...incidents.map((incident): Finding => ({ kind: 'incident', cost_us: incident.cost_us, incident })),
    ...recurrences.map((recurring): Finding => ({ kind: 'recurring', cost_us: recurring.recurrence.cost_us, recurring })),
  ];
  return found.sort((a, b) => b.cost_us - a.cost_us);
}

/** Tells one from the others. */
export const findingKey = (one: Finding): string => (one.kind === 'incident' ? one.incident.id : one.recurring.id);
