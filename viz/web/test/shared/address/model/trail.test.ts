import { describe, expect, test } from 'vitest';
import { PAGES, rankAndSteps, toPage, trail, up, type KnownCall } from '../../../../src/shared/address/model/trail';
import { FIRST_VIEW, formatView, parseView, type View } from '../../../../src/shared/address/model/view';

const at = (change: Partial<View>): View => ({ ...FIRST_VIEW, run: 'heat', ...change });
const texts = (view: View, known: KnownCall | null = null): string[] => trail(view, { 0: 'heat2d', 1: 'viewer' }, known).map((crumb) => crumb.text);

describe('the trail leads from the run to what is looked at', () => {
  test('of a call', () =>
    expect(texts(at({ page: 'call', call: '0:1164:86:225' }), { id: '0:1164:86:225', function: 'MD_NEWTON()', step: 86 })).toEqual([
      'heat',
      'heat2d',
      'rank 1164',
      'step 86',
      'MD_NEWTON #225',
    ]));
  test('of a call whose function is not known yet', () =>
    expect(texts(at({ page: 'call', call: '1:2:3:4' }))).toEqual(['heat', 'viewer', 'rank 2', 'step 3', '#4']));
  test('of a call that ended in a later step: there it is listed', () =>
    expect(texts(at({ page: 'call', call: '0:3:16:5' }), { id: '0:3:16:5', function: 'f', step: 17 })).toEqual([
      'heat',
      'heat2d',
      'rank 3',
      'step 17',
      'f #5',
    ]));
  test('of a call while another one is still known', () =>
    expect(texts(at({ page: 'call', call: '0:3:16:5' }), { id: '0:3:16:6', function: 'f', step: 17 })).toEqual(['heat', 'heat2d', 'rank 3', 'step 16', '#5']));
  test('of a function', () => expect(texts(at({ page: 'function', function: 'relax [{a.c} {1,2}]' }))).toEqual(['heat', 'function relax']));
  test('of the calls of some steps', () => expect(texts(at({ page: 'calls', rank: '0:7', steps: [3, 9] }))).toEqual(['heat', 'heat2d', 'rank 7', 'step 3..9']));
  test('of a timeline without rank', () => expect(texts(at({ page: 'timeline' }))).toEqual(['heat', 'all ranks']));
  test('of pages about the whole', () => {
    expect(texts(at({ page: 'overview', rank: '0:7' }))).toEqual(['heat', 'all ranks']);
    expect(texts(at({ page: 'workflow' }))).toEqual(['heat', 'workflow']);
    expect(texts(at({ page: 'health' }))).toEqual(['heat', 'health']);
    expect(texts(at({ page: 'flame' }))).toEqual(['heat', 'flame graph']);
    expect(texts(at({ page: 'flame', function: 'relax [{a.c} {1,2}]' }))).toEqual(['heat', 'flame graph of relax']);
    expect(texts(at({ page: 'compare', compare: 'before' }))).toEqual(['heat', 'compared with before']);
    expect(texts(at({ page: 'compare', compare: 'one/two' }))).toEqual(['heat', 'compared with 2 runs']);
  });
});

test('a chosen call says where a page is, unless that is limited to another rank', () => {
  expect(rankAndSteps(at({ page: 'timeline', call: '0:3:17:5' }), null)).toEqual({ rank: '0:3', steps: [17, 17] });
  expect(rankAndSteps(at({ page: 'timeline', call: '0:3:17:5', rank: '0:3' }), null)).toEqual({ rank: '0:3', steps: [17, 17] });
  expect(rankAndSteps(at({ page: 'timeline', call: '0:3:17:5', rank: '0:4', steps: null }), null)).toEqual({ rank: '0:4', steps: null });
});

test('up goes one step at a time, and ends at the overview', () => {
  let view = at({ page: 'call', call: '0:3:17:5' });
  const pages: string[] = [];
  for (let press = 0; press < 4; press++) {
    view = { ...view, ...up(trail(view, {}, null)) };
    pages.push(`${view.page} ${view.rank ?? '-'} ${view.steps?.join() ?? '-'} ${view.call ?? '-'}`);
  }
  expect(pages).toEqual(['calls 0:3 17,17 -', 'calls 0:3 - -', 'overview 0:3 - -', 'overview 0:3 - -']);
});

test.each(PAGES)('the address of page %s leads back to it', (page) => {
  const view = at(toPage(page));
  const [path = '', query = ''] = formatView(view).split('?');
  expect(parseView(path, query).page).toBe(page);
});
