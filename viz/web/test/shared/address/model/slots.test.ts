import { expect, test } from 'vitest';
import { keepSlots, toggleRank } from '../../../../src/shared/address/model/slots';

test('a rank takes the first free slot, and others keep theirs when one leaves', () => {
  let slots = toggleRank([], '0:7');
  slots = toggleRank(slots, '0:3');
  slots = toggleRank(slots, '0:7');
  expect(slots).toEqual([null, '0:3']);
  expect(toggleRank(slots, '0:9')).toEqual(['0:9', '0:3']);
  expect(toggleRank(slots, '0:3')).toEqual([]);
});

test('a preferred slot is taken when free', () => {
  expect(toggleRank([], '0:7', 2)).toEqual([null, null, '0:7']);
  expect(toggleRank(['0:1'], '0:7', 0)).toEqual(['0:1', '0:7']);
});

test('the thirteenth rank finds no slot', () => {
  let slots: (string | null)[] = [];
  for (let rank = 0; rank < 13; rank++) slots = toggleRank(slots, `0:${rank}`);
  expect(slots).toHaveLength(12);
  expect(slots).not.toContain('0:12');
});

test('ranks shown by default keep their slots while the order changes', () => {
  const first = keepSlots([], ['0:4', '0:2', '0:9']);
  expect(first).toEqual(['0:4', '0:2', '0:9']);
  expect(keepSlots(first, ['0:9', '0:5', '0:4'])).toEqual(['0:4', '0:5', '0:9']);
});
