/** Placements of the analysis on the cores of a node, in words and for pictures. */

import { digits, exact, percent, plural } from '../../shared/units/units';
import type { AnalysisInterval, PredictedPlacement } from '../../shared/api/types';

/** Cores on which the analysis runs, in words. */
export function whereText({ where, cores, application_cores }: Pick<PredictedPlacement, 'where' | 'cores' | 'application_cores'>): string {
  if (cores < 1) {
    const share = `by a quota of ${digits(cores)} core`;
    if (where === 'shared') return `on all cores, ${share}`;
    if (where === 'inside') return `on 1 core of the application, ${share}`;
    return `on 1 core of its own, ${share}, ${application_cores} for the application`;
  }
  if (where === 'shared') return cores === 1 ? 'on the one core' : cores === 2 ? 'on both cores' : `on all ${exact(cores)} cores`;
  if (where === 'inside') return `on ${plural(cores, 'core')} of the application`;
  return `on ${plural(cores, 'core')} of its own, ${application_cores} for the application`;
}

/** Measured and predicted CPU time of an interval, as shares of the largest value. */
export interface Agreed {
  measured: number;
  predicted: number;
}

/** Return the intervals for a square picture, and the largest value, in µs per step. */
export function agreementOf(intervals: readonly AnalysisInterval[]): { most_us: number; points: Agreed[] } {
  const most_us = intervals.reduce((most, { measured_us, predicted_us }) => Math.max(most, measured_us, predicted_us), 0);
  const points = intervals.map(({ measured_us, predicted_us }) => ({ measured: measured_us / (most_us || 1), predicted: predicted_us / (most_us || 1) }));
  return { most_us, points };
}

/** Error of the predictions, in words. */
export function agreementText(intervals: readonly AnalysisInterval[]): string {
  const errors = intervals.filter(({ measured_us }) => measured_us > 0).map(({ measured_us, predicted_us }) => Math.abs(predicted_us / measured_us - 1));
  if (errors.length === 0) return 'Nothing has been measured yet.';
  return `In ${plural(errors.length, 'interval')}, each predicted from all others, the largest error is ${percent(Math.max(...errors))}.`;
}

/** Numbers of cores of a placement, by who uses them. */
export interface CoreSplit {
  application: number;
  both: number;
  analysis: number;
}

/** Split the cores of a node between application and analysis; a quota gives the analysis a part of a core. */
export function splitOf({ where, cores, application_cores }: Pick<PredictedPlacement, 'where' | 'cores' | 'application_cores'>): CoreSplit {
  if (where === 'own') return { application: application_cores, both: 0, analysis: cores };
  return { application: Math.max(application_cores - cores, 0), both: cores, analysis: 0 };
}
