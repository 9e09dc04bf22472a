import { describe, expect, test } from 'vitest';
import { chainOf, consequenceText, isLoss, isWait, originText } from '../../../src/incident/model/chain';
import { incidentOf, ORIGIN, waited } from './incident';
import type { Part } from '../../../src/shared/api/types';

const shape = (...held: ReturnType<typeof waited>[]) => chainOf(incidentOf(held)).map(({ waited: { rank }, depth }) => [rank, depth]);

describe('the chain', () => {
  test('leads from the origin over each wait to those that waited for it', () =>
    expect(shape(waited(0, ORIGIN), waited(5, '0:2:1:2'), waited(2, ORIGIN), waited(1, '0:0:1:0'))).toEqual([
      [0, 0],
      [1, 1],
      [2, 0],
      [5, 1],
    ]));
  test('has those whose partner is not on record at the origin', () =>
    expect(shape(waited(0, ''), waited(1, '0:9:9:9'))).toEqual([
      [0, 0],
      [1, 0],
    ]));
  test('has each of those that wait for each other once', () =>
    expect(shape(waited(0, '0:1:1:1'), waited(1, '0:0:1:0'), waited(2, '0:2:1:2'))).toEqual([
      [2, 0],
      [0, 0],
      [1, 1],
    ]));
});

describe('words', () => {
  test('who waits, and who only lost time', () => {
    expect(consequenceText(waited(4, ORIGIN))).toBe('rank 4 waited 100 ms in MPI_Recv');
    expect(consequenceText(waited(4, ORIGIN, { kind: 'in child', operation: 'solve' }))).toBe('rank 4 lost 100 ms in solve');
    expect([isWait({ kind: 'not explained' }), isWait({ kind: 'own code' })]).toEqual([true, false]);
  });
  test('what lost the time where it is no recorded call', () => {
    const loss = { id: 'L0:1:1w', rank: 1, begin_us: 0, end_us: 2_000_000, lost_us: 1_000_000, beyond_us: 0 };
    const of = (rank: number | null, losses: (typeof loss)[], kind: Part['kind'] = 'late sender') => incidentOf([], { call_id: '', rank, losses, kind });
    const lost = of(1, [loss], 'waited for core');
    expect(originText(lost)).toBe('The node kept these ranks from running, whatever calls they were in: rank 1 for 1 s of 2 s');
    expect(originText(of(1, []))).toBe('Rank 1 was late; no abnormal call of it is on record.');
    expect(originText(of(null, []))).toBe('The call that lost the time is not on record.');
    // Of a wait in which its rank had no core for a while the origin is not known either.
    expect([lost, of(1, [loss]), of(1, []), incidentOf([], { losses: [loss] })].map(isLoss)).toEqual([true, false, false, false]);
  });
});
