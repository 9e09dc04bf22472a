import { expect, it } from 'vitest';
import { moved, zoomed } from '../../../src/node/model/zoom';

it('times are zoomed and moved within all that there is', () => {
  const all = [1e6, 5e6] as const;
  expect(zoomed([2e6, 4e6], all, 0.5)).toEqual([2.5e6, 3.5e6]);
  expect(zoomed([4e6, 5e6], all, 2)).toEqual([3e6, 5e6]);
  expect(zoomed([2e6, 4e6], all, 2)).toBeNull();
  expect(moved([2e6, 4e6], all, 1)).toEqual([3e6, 5e6]);
});
