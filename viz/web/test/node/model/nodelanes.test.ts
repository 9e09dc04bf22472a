import { describe, expect, it } from 'vitest';
import { coreLane, gpuLane, laneText, meansOf, moved, pathsOf, threadLane, unknownPath, zoomed } from '../../../src/node/model/nodelanes';

const thread = threadLane({
  program: 0,
  rank: 3,
  thread: 1,
  tid: 42,
  name: 'async',
  cpus: '0-3',
  ran_us: 1,
  waited_us: 0,
  user: [0.5, 0.5, null, 0],
  system: [0.25, 0.25, null, 0],
  waited: [0, 0, null, 1],
});

describe('lanes of a node', () => {
  it('stack their parts, alike intervals as one bar, and show what is not known', () => {
    expect(pathsOf(thread.parts, 40, 20)).toEqual(['M0 10H20V20H0Z', 'M0 5H20V10H0Z', 'M30 0H40V20H30Z']);
    expect(unknownPath(thread.parts, 40, 20)).toBe('M20 0h10v20h-10Z');
  });

  it('say what they did', () => {
    expect([thread.name, thread.title]).toEqual(['rank 3 async', 'async, thread 42 of rank 3, may use 0-3']);
    expect([0, 2, 3].map((column) => laneText(thread, column))).toEqual([
      '50 % in the program, 25 % in the kernel, 25 % slept',
      'not sampled',
      '100 % waited for a core',
    ]);
    expect(meansOf(thread).map((mean) => mean && Number(mean.toFixed(3)))).toEqual([0.333, 0.167, 0.333]);
    const core = coreLane({ cpu: 5, own_us: 1, busy_us: 1, own: [0], others: [0.9], stolen: [0] });
    expect(laneText(core, 0)).toBe('90 % others, 10 % idle');
    const unknown = { memory_used_bytes: 0, memory_total_bytes: 0, power_w: 0, temperature_c: 0 };
    const gpu = gpuLane({ gpu: 2, name: 'Made 100', busy_us: 1, busy: [0.25], throttled: [0.5], ...unknown });
    expect([gpu.title, laneText(gpu, 0)]).toEqual(['GPU 2 (Made 100)', '25 % a kernel ran, 50 % a kernel ran, slowed down, 25 % no kernel ran']);
    const known = { memory_used_bytes: 3e10, memory_total_bytes: 8e10, power_w: 300.4, temperature_c: 70 };
    expect(gpuLane({ gpu: 0, name: 'Made 100', busy_us: 0, busy: [0], throttled: [0], ...known }).title).toBe(
      'GPU 0 (Made 100, at most 30.0 of 80.0 GB used, 300 W, at most 70 °C)',
    );
  });

  it('are zoomed and moved within all that there is', () => {
    const all = [1e6, 5e6] as const;
    expect(zoomed([2e6, 4e6], all, 0.5)).toEqual([2.5e6, 3.5e6]);
    expect(zoomed([4e6, 5e6], all, 2)).toEqual([3e6, 5e6]);
    expect(zoomed([2e6, 4e6], all, 2)).toBeNull();
    expect(moved([2e6, 4e6], all, 1)).toEqual([3e6, 5e6]);
  });
});
