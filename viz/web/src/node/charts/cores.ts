import type { NodeChart } from '../model/nodechart';
import type { CoresAnswer } from '../../shared/api/types';

export const cores: NodeChart<CoresAnswer> = {
  name: 'cores',
  title: 'Cores',
  bands: [
    { colour: 'program', text: 'ranks' },
    { colour: 'foreign', text: 'others' },
    { colour: 'waited', text: 'taken by the host' },
  ],
  rest: 'idle',
  isHiddenWhenEmpty: false,
  lanesOf: (answer) =>
    answer.cores.map((core) => ({
      key: String(core.cpu),
      name: `core ${core.cpu}`,
      title: `core ${core.cpu}`,
      shares: [core.own, core.others, core.stolen],
    })),
};
