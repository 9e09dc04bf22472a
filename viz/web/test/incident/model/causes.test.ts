import { describe, expect, test } from 'vitest';
import { causeOf, partText } from '../../../src/incident/model/causes';
import { CAUSES } from '../../../src/shared/api/causes';
import { ORIGIN } from './incident';
import type { Part } from '../../../src/shared/api/types';

describe('causes', () => {
  const part: Part = { kind: 'late sender', lost_us: 1, function: 'compute', rank: 3, call_id: ORIGIN, is_matched: true };
  test.each([
    [part, 'waiting for a message from rank 3, which was in compute'],
    [{ ...part, function: '', rank: null }, 'waiting for a message from a rank that is not known'],
    [{ ...part, is_matched: false }, 'waiting for a message from rank 3, which was in compute (inferred from when it lost time: no message shows it)'],
    [{ ...part, kind: 'late at collective' as const }, 'waiting for rank 3, the last to enter, which was in compute'],
    [{ ...part, kind: 'late child' as const }, 'before it called compute'],
    [{ ...part, kind: 'waited for core' as const, by: 'rank 2' }, 'kept from running by rank 2'],
    [{ ...part, kind: 'waited for core' as const, by: '' }, 'kept from running by a process that is not known'],
    [{ ...part, kind: 'more bytes' as const }, 'moving more data than usual, sent by rank 3 in compute'],
    [{ ...part, kind: 'more bytes' as const, function: '', rank: null }, 'moving more data than usual'],
    [{ ...part, kind: 'page faults' as const, count: 1200 }, 'getting memory from the kernel, in 1,200 page faults'],
    [{ ...part, kind: 'held lock' as const, by: 'async' }, 'waiting for a lock while its thread async ran'],
    [{ ...part, kind: 'held lock' as const }, 'waiting for a lock'],
    [{ ...part, kind: 'GPU busy' as const, by: 'GPU 1', count: 1 }, 'as GPU 1 had more to do than usual, with 1 program of others on it'],
    [{ ...part, kind: 'GPU busy' as const, by: 'GPU 1' }, 'as GPU 1 had more to do than usual'],
    [{ ...part, kind: 'waited for GPU' as const }, 'until compute had ended on the GPU'],
    [{ ...part, kind: 'waited for GPU' as const, function: '', call_id: '' }, 'until its work had ended on the GPU'],
    [{ ...part, kind: 'GPU queue full' as const }, 'until the GPU could take more work, behind compute'],
    [{ ...part, kind: 'counter out of range' as const, by: 'PAPI_TOT_INS', count: 12 }, 'while PAPI_TOT_INS rose by 12 times as much as usual'],
  ])('of a part: %#', (one, text) => expect(partText(one)).toBe(text));

  test('of a plugin are known by their names', () => {
    const one: Part = { ...part, kind: 'checkpoint' };
    expect([partText(one), causeOf('checkpoint').colour]).toEqual(['by “checkpoint”, which a plugin found', 'unexplained']);
  });

  test('have texts that can be filled in', () => {
    for (const { id } of CAUSES) {
      expect(causeOf(id).id).toBe(id);
      expect(partText({ ...part, kind: id, by: 'X', count: 2 })).not.toMatch(/[[\]{}|]|undefined/);
    }
  });
});
