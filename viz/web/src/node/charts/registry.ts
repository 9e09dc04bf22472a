/** Charts of a node's page, in the order in which they stand there. A chart draws the answer of the endpoint of its name, `nodes/NODE/NAME`. */

import { cores } from './cores';
import { gpus } from './gpus';
import { threads } from './threads';
import type { NodeChart } from '../model/nodechart';

export const CHARTS: readonly NodeChart[] = [threads, cores, gpus];
