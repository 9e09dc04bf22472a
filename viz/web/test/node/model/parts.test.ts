import { describe, expect, it } from 'vitest';
import { boxesOf, countsText, cpusOf, nodeAnswer, ranksByCpu, rangesOf } from '../../../src/node/model/parts';
import type { NodeFacts, NodePart, NodeRank } from '../../../src/shared/api/types';

const part = (depth: number, kind: string, logical: number, physical: number | null, cpus: string, size_bytes: number | null = null): NodePart => ({
  depth,
  kind,
  logical,
  physical,
  cpus,
  size_bytes,
});
const PARTS = [
  part(0, 'Machine', 0, 0, '0-2'),
  part(1, 'NUMANode', 0, 0, '0-2', 2 ** 33),
  part(1, 'Core', 0, 7, '0,2'),
  part(2, 'PU', 0, 0, '0'),
  part(2, 'PU', 1, 2, '2'),
  part(1, 'Core', 1, 8, '1'),
  part(2, 'PU', 2, 1, '1'),
];
const rank = (number: number, cpus: string): NodeRank => ({
  program: 0,
  rank: number,
  pid: 1,
  cpus,
  threads: 1,
  length_us: 10,
  ran_us: 5,
  system_us: 0,
  waited_us: 2,
});

describe('the parts of a node', () => {
  it('lie in each other', () => {
    const [node] = boxesOf(PARTS);
    expect(node?.children.map((box) => [box.text, box.children.map((child) => child.text)])).toEqual([
      ['memory 0, 8 GB', []],
      ['core 0', ['0', '2']],
      ['core 1', ['1']],
    ]);
    expect(countsText(PARTS)).toBe('1 NUMA node, 2 cores, 3 hardware threads');
  });

  it('have the ranks that may run there', () => {
    expect(cpusOf('0-2,8')).toEqual([0, 1, 2, 8]);
    expect(cpusOf('')).toEqual([]);
    const found = ranksByCpu([rank(0, '0-1'), rank(1, '1'), rank(2, '')]);
    expect([...found].map(([cpu, ranks]) => [cpu, rangesOf(ranks)])).toEqual([
      [0, '0'],
      [1, '0-1'],
    ]);
  });

  it('are one sentence with what is wrong', () => {
    const facts = { ranks: [rank(0, '0'), rank(1, '0')], cores: 2, findings: [] as NodeFacts['findings'] } as NodeFacts;
    expect(nodeAnswer('n1', facts)).toBe('n1: nothing was found wrong. 2 ranks used 1 of 2 cores, and waited for one for 20 % of the time.');
    const wrong = { kind: 'oversubscribed', text: '', advice: '', times: [] };
    expect(nodeAnswer('n1', { ...facts, findings: [wrong] })).toContain('n1: oversubscribed. ');
    expect(nodeAnswer('n1', { ...facts, ranks: [] })).toBe('n1: nothing was found wrong. No rank was seen on it.');
  });
});
