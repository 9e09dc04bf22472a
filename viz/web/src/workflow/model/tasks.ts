/** Tasks of a workflow: their activities over time, and the run times of programs by scale. */

import { quantileSorted } from 'd3-array';
import type { TaskView } from '../../shared/api/types';

/** Activity of a task: it waits for other tasks, waits for cores, or runs. */
export type Activity = 'waits' | 'ready' | 'runs';

const DOING: Readonly<Record<string, Activity>> = { NEW: 'waits', SCHEDULED: 'ready', EXECUTING: 'runs' };

/** Activities in words, also for the legend. */
export const ACTIVITY_TEXT: Readonly<Record<Activity, string>> = { waits: 'waits for other tasks', ready: 'waits for cores', runs: 'runs' };

export interface Stretch {
  activity: Activity;
  begin_us: number;
  end_us: number;
}

export interface TaskRow {
  name: string;
  /** Nodes on which it ran; empty where it did not run. */
  nodes: string;
  stretches: Stretch[];
  /** Last state of the task. */
  state: string;
  /** Whether the task has failed for good, or never ran. */
  isLost: boolean;
  runs_us: number;
  waits_us: number;
  task: TaskView;
}

/** Range of all times that are known; null without any. */
export function spanOf(tasks: readonly TaskView[], sampled: readonly (readonly number[])[], now_us: number): [number, number] | null {
  const times = [...tasks.flatMap((task) => task.states.map(([time_us]) => time_us)), ...sampled.flatMap((one) => [one[0], one[one.length - 1]])];
  const known = times.filter((time_us): time_us is number => time_us !== undefined);
  if (known.length === 0) return null;
  const first = known.reduce((least, time_us) => Math.min(least, time_us));
  const last = known.reduce((most, time_us) => Math.max(most, time_us), now_us);
  return [first, Math.max(last, first + 1)];
}

/** Begin of the trace, or of anything that is known from before it; 0 for a trace that has not begun. */
export function startOf(trace_us: number, others: readonly (number | undefined)[]): number {
  const known = [trace_us || undefined, ...others].filter((time_us): time_us is number => time_us !== undefined);
  return known.reduce((least, time_us) => Math.min(least, time_us), known[0] ?? 0);
}

/** Make a row for each task; tasks that have not ended last until `end_us`. */
export function rowsOf(tasks: readonly TaskView[], end_us: number): TaskRow[] {
  return tasks.map((task) => {
    const stretches = task.states.flatMap(([begin_us, state], at): Stretch[] => {
      const activity = DOING[state];
      return activity === undefined ? [] : [{ activity, begin_us, end_us: task.states[at + 1]?.[0] ?? Math.max(begin_us, end_us) }];
    });
    const state = task.states[task.states.length - 1]?.[1] ?? '';
    const lasted = (is: (activity: Activity) => boolean): number => stretches.reduce((sum, one) => sum + (is(one.activity) ? one.end_us - one.begin_us : 0), 0);
    return {
      name: task.name,
      nodes: task.nodes.join(', '),
      stretches,
      state,
      isLost: state === 'FAILED' || state === 'CANCELED',
      runs_us: lasted((activity) => activity === 'runs'),
      waits_us: lasted((activity) => activity !== 'runs'),
      task,
    };
  });
}

/** First sentence of the page: the number of tasks in each state. */
export function tasksAnswer(tasks: readonly TaskView[]): string {
  const counts = new Map<string, number>();
  for (const { states } of tasks) {
    const state = states[states.length - 1]?.[1] ?? '';
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  const words = [...counts].map(([state, count]) => `${count} ${WORDS[state] ?? state}`);
  return `${tasks.length === 1 ? '1 task' : `${tasks.length} tasks`}: ${words.join(', ')}.`;
}

const WORDS: Readonly<Record<string, string>> = {
  NEW: 'waiting for others',
  SCHEDULED: 'waiting for cores',
  EXECUTING: 'running',
  DONE: 'done',
  FAILED: 'failed',
  CANCELED: 'cancelled',
};

export interface Box {
  program: string;
  /** Cores on all nodes; 0 where they are not known. */
  cores: number;
  runs: number;
  least_us: number;
  quarter_us: number;
  median_us: number;
  threeQuarters_us: number;
  most_us: number;
}

/** Run times of completed tasks as boxes, by program and number of cores. */
export function boxesOf(tasks: readonly TaskView[]): Box[] {
  const groups = new Map<string, { program: string; cores: number; times: number[] }>();
  for (const task of tasks) {
    task.states.forEach(([end_us, state], at) => {
      const before = task.states[at - 1];
      if (state !== 'DONE' || before?.[1] !== 'EXECUTING') return;
      const program = task.program || task.name;
      const group = groups.get(`${program} ${task.cores}`) ?? { program, cores: task.cores, times: [] };
      group.times.push(end_us - before[0]);
      groups.set(`${program} ${task.cores}`, group);
    });
  }
  const boxes = [...groups.values()].map(({ program, cores, times }): Box => {
    times.sort((one, other) => one - other);
    const at = (share: number): number => quantileSorted(times, share) ?? 0;
    return { program, cores, runs: times.length, least_us: at(0), quarter_us: at(0.25), median_us: at(0.5), threeQuarters_us: at(0.75), most_us: at(1) };
  });
  return boxes.sort((one, other) => one.program.localeCompare(other.program) || one.cores - other.cores);
}

/** Times at which tasks began to run on a node. */
export function startsOn(node: string, tasks: readonly TaskView[]): { time_us: number; name: string }[] {
  return tasks
    .filter((task) => task.nodes.includes(node))
    .flatMap((task) => task.states.filter(([, state]) => state === 'EXECUTING').map(([time_us]) => ({ time_us, name: task.name })))
    .sort((one, other) => one.time_us - other.time_us);
}
