import { describe, expect, test } from 'vitest';
import { binsOf, largestOf, lostOfCode } from '../../../../src/overview/heatmap/model/bins';
import { UNKNOWN } from '../../../../src/overview/heatmap/model/grid';

/** As the server makes it. */
const codeOf = (us: number): number => 1 + Math.floor(3 * Math.log2(us));

test.each([
  [1, '1'],
  [2, '2'],
  [3, '3–4'],
  [4, '3–4'],
  [5, '5–8'],
  [8, '5–8'],
  [9, '9–16'],
  [16, '9–16'],
  [17, '17+'],
  [254, '17+'],
])('%d is in bin %s', (count, name) => {
  const bins = binsOf('anomalies', 0);
  expect(bins.names[bins.of(count)]).toBe(name);
});

test('sums of anomalies are told apart by round numbers up to the largest', () => {
  const bins = binsOf('anomalies', codeOf(4000), true);
  expect(bins.names).toEqual(['<100', '100–200', '200–500', '500–1,000', '1,000–2,000', '2,000+']);
  expect(bins.names[bins.of(codeOf(250))]).toBe('200–500');
  const few = binsOf('anomalies', codeOf(3), true);
  expect(few.names[few.of(codeOf(1))]).toBe('1–2');
});

describe('times', () => {
  test('a code stands for times that differ from its own by an eighth', () => {
    expect(lostOfCode(0)).toBe(0);
    for (const us of [1.5, 999, 12_345, 8e9]) expect(Math.abs(lostOfCode(codeOf(us)) / us - 1)).toBeLessThan(0.13);
  });

  test('bins end where the longest time is, in round numbers', () => {
    const bins = binsOf('lost', codeOf(5e6));
    expect(bins.names).toEqual(['<30 ms', '30–100', '100–300 ms', '300 ms–1 s', '1–3 s', '3 s+']);
    expect([2e3, 50e3, 200e3, 500e3, 2e6, 5e6].map((us) => bins.of(codeOf(us)))).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('no time is too short or too long for them', () => {
    expect(binsOf('lost', 0).names).toEqual([]);
    for (const most of [1, 10, 60, 127]) {
      const bins = binsOf('lost', most);
      expect(new Set(bins.names).size).toBe(6);
      for (let code = 1; code < 127; code++) expect(bins.of(code + 1)).toBeGreaterThanOrEqual(bins.of(code));
      expect(bins.of(most)).toBeLessThan(6);
    }
  });

  test('they only widen', () => {
    for (let most = 1; most < 127; most++) {
      for (let code = 1; code <= most; code++) expect(binsOf('lost', most + 1).of(code)).toBeLessThanOrEqual(binsOf('lost', most).of(code));
    }
  });

  test('what is not known is no largest value', () => {
    expect(largestOf(Uint8Array.from([UNKNOWN, 3, 7, 0]))).toBe(7);
    expect(largestOf(new Uint8Array(0))).toBe(0);
  });
});
