import { describe, expect, test } from 'vitest';
import { boxesOf, rowsOf, spanOf, startOf, startsOn, tasksAnswer } from '../../../src/workflow/model/tasks';
import type { TaskView } from '../../../src/shared/api/types';

const task = (name: string, states: [number, string][], change: Partial<TaskView> = {}): TaskView => ({
  name,
  states,
  program: 'heat',
  nodes: ['node0'],
  ranks: 1,
  cores: 4,
  attempt: 1,
  exit_code: null,
  reason: '',
  ...change,
});

describe('tasks', () => {
  test('what goes on lasts until now, and what is over is as it was', () => {
    const tasks = [
      task('a', [
        [0, 'NEW'],
        [1, 'SCHEDULED'],
        [3, 'EXECUTING'],
      ]),
      task('b', [
        [0, 'NEW'],
        [5, 'CANCELED'],
      ]),
    ];
    const [goesOn, lost] = rowsOf(tasks, 10);
    expect(goesOn?.stretches.map(({ activity, end_us }) => [activity, end_us])).toEqual([
      ['waits', 1],
      ['ready', 3],
      ['runs', 10],
    ]);
    expect([goesOn?.runs_us, goesOn?.waits_us, goesOn?.isLost]).toEqual([7, 3, false]);
    expect([lost?.runs_us, lost?.waits_us, lost?.isLost]).toEqual([0, 5, true]);
    expect(tasksAnswer(tasks)).toBe('2 tasks: 1 running, 1 cancelled.');
    expect(startsOn('node0', tasks)).toEqual([{ time_us: 3, name: 'a' }]);
  });

  test('the charts begin and end with what is known', () => {
    expect(spanOf([], [[]], 7)).toBeNull();
    expect(spanOf([task('a', [[5, 'NEW']])], [[3, 4, 9]], 0)).toEqual([3, 9]);
    expect(spanOf([task('a', [[5, 'NEW']])], [], 12)).toEqual([5, 12]);
    expect(spanOf([task('a', [[5, 'NEW']])], [], 0)).toEqual([5, 6]);
  });

  test('times begin with what is known first, so none is negative', () => {
    expect(startOf(100, [40, 120, undefined])).toBe(40);
    expect(startOf(100, [undefined])).toBe(100);
    expect(startOf(0, [40])).toBe(40);
    expect(startOf(0, [])).toBe(0);
  });

  test('run times are boxes by program and cores, of tries that came to their end', () => {
    const ran = (us: number, cores: number, end = 'DONE'): TaskView =>
      task(
        `${us}`,
        [
          [0, 'EXECUTING'],
          [us, end],
        ],
        { cores },
      );
    const again = task('again', [
      [0, 'EXECUTING'],
      [1, 'SCHEDULED'],
      [2, 'EXECUTING'],
      [9, 'DONE'],
    ]);
    const boxes = boxesOf([ran(30, 8), ran(10, 4), ran(20, 4), ran(1, 4, 'FAILED'), again, task('none', [])]);
    expect(boxes.map(({ cores, runs, least_us, median_us, most_us }) => [cores, runs, least_us, median_us, most_us])).toEqual([
      [4, 3, 7, 10, 20],
      [8, 1, 30, 30, 30],
    ]);
  });
});
