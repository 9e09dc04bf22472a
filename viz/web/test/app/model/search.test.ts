import { describe, expect, test } from 'vitest';
import { MOST_FOUND, search as searchAll, type Found } from '../../../src/app/model/search';
import { PAGES, pagesOf } from '../../../src/shared/address/model/trail';
import type { FunctionRow } from '../../../src/shared/api/types';

const row = (name: string, anomalies = 0): FunctionRow => ({ name, anomalies, calls: 1234, severity_us: anomalies * 1000 }) as FunctionRow;
const functions = [row('relax_block [{heat2d.c} {47,0}]', 3), row('MPI_Waitall()', 2), row('void update_waits(int)')];
const search = (text: string, known: readonly FunctionRow[]): Found[] => searchAll(text, known, PAGES);
const texts = (text: string): string[] => search(text, functions).map((one) => `${one.kind}: ${one.text}`);

describe('a search means', () => {
  test('pages, before anything is typed', () =>
    expect(search('', functions).map((one) => one.text)).toEqual([
      'Overview',
      'Calls',
      'Timeline',
      'Flame graph',
      'Nodes',
      'Workflow',
      'Health',
      'Compare',
      'History',
    ]));
  test('no page that has nothing to show', () => expect(searchAll('wor', [], pagesOf(false))).toEqual([]));
  test('functions by a part of the name, those that begin so first', () => expect(texts('mpi_wait')).toEqual(['function: MPI_Waitall']));
  test('functions by words in any order', () => expect(texts('block relax')).toEqual(['function: relax_block']));
  test('both of two that hold a word', () => expect(texts('wait')).toEqual(['function: MPI_Waitall', 'function: update_waits']));
  test.each(['0:3', 'rank 0:3', '3', 'rank 3'])('a rank: %s', (text) => {
    const [calls, timeline] = search(text, []);
    expect(calls?.change).toMatchObject({ page: 'calls', rank: '0:3', steps: null });
    expect(timeline?.change).toMatchObject({ page: 'timeline', rank: '0:3' });
  });
  test('a step', () => expect(search('Step 86', functions)[0]?.change).toMatchObject({ page: 'calls', steps: [86, 86], rank: null }));
  test('a call', () => expect(search(' 0:3:86:225 ', functions)[0]?.change).toEqual({ page: 'call', call: '0:3:86:225' }));
  test('a page by its first letters', () => expect(texts('hea')[0]).toBe('page: Health'));
  test('nothing', () => expect(search('no such thing', functions)).toEqual([]));
});

test('the whole name goes into the address, and says what is known of it', () => {
  const [found] = search('relax', functions);
  expect(found?.change).toMatchObject({ page: 'function', function: 'relax_block [{heat2d.c} {47,0}]' });
  expect(found?.detail).toBe('▲ 3, 3 ms lost');
});

test('a long list ends', () =>
  expect(
    search(
      'f',
      Array.from({ length: 500 }, (_, n) => row(`f${n}()`)),
    ),
  ).toHaveLength(MOST_FOUND));
