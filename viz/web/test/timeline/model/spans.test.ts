import { describe, expect, test } from 'vitest';
import { ANOMALY, decodeTimeline, firstEndingFrom, idOf, judgedOf, MERGED, spanAt } from '../../../src/timeline/model/spans';
import { answer } from './timelineanswer';

describe('spans', () => {
  const spans = decodeTimeline('0:1', answer);
  const [, row] = spans.rows;
  if (row === undefined) throw new Error('no row');

  test('are read from differences', () => {
    expect([...row.begin]).toEqual([100, 150, 250, 650]);
    expect([...row.end]).toEqual([140, 250, 253, 750]);
    expect([...row.row]).toEqual([7, 9, 13, 3]);
    expect(idOf('0:1', row, 1)).toBe('0:1:1:9');
    expect(judgedOf(spans, row, 1)?.severity_us).toBe(60);
    expect(judgedOf(spans, row, 0)).toBeUndefined();
    expect((row.flags[2] as number) & MERGED).toBeTruthy();
    expect([...spans.groups]).toEqual([0, 1, 0]);
  });

  test('are found by time', () => {
    expect(spanAt(row, 120, 0)).toBe(0);
    expect(spanAt(row, 145, 0)).toBe(-1);
    expect(spanAt(row, 400, 0)).toBe(-1);
    expect(spanAt(row, 700, 0)).toBe(3);
  });

  test('an abnormal one is meant where it is near', () => {
    expect((row.flags[1] as number) & ANOMALY).toBe(1);
    expect(spanAt(row, 140, 10)).toBe(1);
    expect(spanAt(row, 252, 4)).toBe(1);
  });

  test('bisection finds what a walk finds', () => {
    const ends = Float64Array.from({ length: 50 }, (_, at) => at * 7 + (at % 3));
    for (let time = -5; time < 400; time += 3) {
      const walked = ends.findIndex((end) => end >= time);
      expect(firstEndingFrom(ends, time)).toBe(walked < 0 ? ends.length : walked);
    }
  });
});
