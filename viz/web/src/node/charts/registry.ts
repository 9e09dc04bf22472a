/** Charts of a node's page, in the order in which they stand there. A new chart is a module beside this one and a line here. */

import { cores } from './cores';
import { gpus } from './gpus';
import { threads } from './threads';
import type { NodeChart } from '../model/nodechart';

export const CHARTS: readonly NodeChart[] = [threads, cores, gpus];
