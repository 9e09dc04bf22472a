import { describe, expect, test } from 'vitest';
import { ALL, moved, shareOf, shownOf, windowOn, windowOnNow } from '../../../../src/overview/heatmap/model/window';

describe('a window on steps', () => {
  test('that are all is none', () => expect(windowOn([-3, 104], 100, true)).toEqual(ALL));
  test('in the middle stands still', () => expect(windowOn([20, 40], 100, true)).toEqual({ zoom: [20, 40], newest: 0 }));
  test('before the first is cut', () => expect(windowOn([-5, 40], 100, true)).toEqual({ zoom: [0, 40], newest: 0 }));
  test('up to the last follows a run that goes on', () => expect(windowOn([80, 105], 100, true)).toEqual({ zoom: null, newest: 20 }));
  test('up to the last of a run that has ended stands', () => expect(windowOn([80, 105], 100, false)).toEqual({ zoom: [80, 99], newest: 0 }));
  test('beyond the last shows the last', () => expect(windowOn([180, 205], 100, true)).toEqual({ zoom: null, newest: 1 }));
});

test('back to now as many steps are shown as before', () => {
  expect(windowOnNow([20, 39])).toEqual({ zoom: null, newest: 20 });
  expect(windowOnNow(null)).toEqual(ALL);
});

test('the newest steps go on with the run', () => {
  const window = windowOn([80, 99], 100, true);
  expect(shownOf(window, 100)).toEqual([80, 99]);
  expect(shownOf(window, 130)).toEqual([110, 129]);
  expect(shownOf({ zoom: null, newest: 50 }, 10)).toEqual([0, 9]);
  expect(shownOf({ zoom: null, newest: 50 }, 0)).toBeNull();
  expect(shownOf(ALL, 10)).toBeNull();
});

test('a move keeps the length, and stays within bounds', () => {
  expect(moved([10, 19], 5, [0, 99])).toEqual([15, 24]);
  expect(moved([2, 11], -9, [0, 99])).toEqual([0, 9]);
  expect(moved([80, 89], 50, [0, 99])).toEqual([90, 99]);
  expect(moved([0, 99], 7, [0, 99])).toEqual([0, 99]);
});

test('a share of a range is one step at least', () => {
  expect(shareOf([10, 19], 0.3)).toBe(3);
  expect(shareOf([10, 10], -0.3)).toBe(-1);
});
