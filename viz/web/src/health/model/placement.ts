/** Places of the analysis, in words. */

import { plural } from '../../shared/units/units';
import type { PredictedPlacement } from '../../shared/api/types';

/** Where the analysis runs. */
export function whereText({ where, cores, application_cores }: Pick<PredictedPlacement, 'where' | 'cores' | 'application_cores'>): string {
  if (where === 'shared') return `on all ${plural(cores, 'core')}`;
  if (where === 'inside') return `on ${plural(cores, 'core')} of the application`;
  return `on ${plural(cores, 'core')} of its own, ${application_cores} for the application`;
}
