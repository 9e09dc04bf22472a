import type { NodeChart } from '../model/nodechart';
import type { ThreadsAnswer } from '../../shared/api/types';

export const threads: NodeChart<ThreadsAnswer> = {
  name: 'threads',
  title: 'Threads',
  bands: [
    { colour: 'program', text: 'in the program' },
    { colour: 'kernel', text: 'in the kernel' },
    { colour: 'waited', text: 'waited for a core' },
  ],
  rest: 'slept',
  isHiddenWhenEmpty: false,
  lanesOf: (answer) =>
    answer.threads.map((thread) => ({
      key: String(thread.tid),
      name: thread.thread === 0 ? `rank ${thread.rank}` : `rank ${thread.rank} ${thread.name}`,
      title: `${thread.name}, thread ${thread.tid} of rank ${thread.rank}${thread.cpus === '' ? '' : `, may use ${thread.cpus}`}`,
      shares: [thread.user, thread.system, thread.waited],
      ran: (call) => thread.thread === call.thread && thread.rank === call.rank && thread.program === call.program,
    })),
};
