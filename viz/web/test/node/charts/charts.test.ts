import { describe, expect, it } from 'vitest';
import { cores } from '../../../src/node/charts/cores';
import { gpus } from '../../../src/node/charts/gpus';
import { CHARTS } from '../../../src/node/charts/registry';
import { threads } from '../../../src/node/charts/threads';
import { intervalText } from '../../../src/node/model/nodechart';
import type { CallSummary, CoresAnswer, GpuLane, GpusAnswer, ThreadsAnswer } from '../../../src/shared/api/types';

const threadsAnswer = (thread: number): ThreadsAnswer =>
  ({
    ok: true,
    threads: [{ program: 0, rank: 3, thread, tid: 42, name: 'async', cpus: '0-3', ran_us: 1, waited_us: 0, user: [0.5], system: [0.25], waited: [0] }],
  }) as unknown as ThreadsAnswer;

describe('the charts of a node', () => {
  it('have a name, and a share for each of their bands', () => {
    expect(new Set(CHARTS.map(({ name }) => name)).size).toBe(CHARTS.length);
    const [thread] = threads.lanesOf(threadsAnswer(1));
    expect(thread?.shares.length).toBe(threads.bands.length);
  });

  it('show threads, with the calls that ran on them', () => {
    const [thread] = threads.lanesOf(threadsAnswer(1));
    expect([thread?.name, thread?.title]).toEqual(['rank 3 async', 'async, thread 42 of rank 3, may use 0-3']);
    const call = { program: 0, rank: 3, thread: 1 } as CallSummary;
    expect([thread?.ran?.(call), thread?.ran?.({ ...call, rank: 4 })]).toEqual([true, false]);
    expect(threads.lanesOf(threadsAnswer(0))[0]?.name).toBe('rank 3');
  });

  it('show cores', () => {
    const answer = { cores: [{ cpu: 5, own_us: 1, busy_us: 1, own: [0], others: [0.9], stolen: [0] }] } as unknown as CoresAnswer;
    const [core] = cores.lanesOf(answer);
    expect([core?.name, core && intervalText(cores, core, 0)]).toEqual(['core 5', '90 % others, 10 % idle']);
  });

  it('show GPUs, with what is known of them', () => {
    const laneOf = (facts: Partial<GpuLane>) => {
      const unknown = { memory_used_bytes: 0, memory_total_bytes: 0, power_w: 0, temperature_c: 0 };
      const answer = { gpus: [{ gpu: 2, name: 'Made 100', busy_us: 1, busy: [0.25], throttled: [0.5], ...unknown, ...facts }] } as unknown as GpusAnswer;
      return gpus.lanesOf(answer)[0] ?? { key: '', name: '', title: '', shares: [] };
    };
    expect(laneOf({}).title).toBe('GPU 2 (Made 100)');
    expect(intervalText(gpus, laneOf({}), 0)).toBe('25 % a kernel ran, 50 % a kernel ran, slowed down, 25 % no kernel ran');
    expect(laneOf({ memory_used_bytes: 3e10, memory_total_bytes: 8e10, power_w: 300.4, temperature_c: 70 }).title).toBe(
      'GPU 2 (Made 100, at most 30.0 of 80.0 GB used, 300 W, at most 70 °C)',
    );
  });
});
