import { expect, test } from 'vitest';
import { commonTimes, timelineOf } from '../../../src/call/model/callwindow';
import type { CallRecord } from '../../../src/shared/api/types';

const call = (id: string, entry_us: number, exit_us: number, depth: number, is_anomaly = false) => ({
  id,
  function: id,
  entry_us,
  exit_us,
  parent_id: '',
  depth,
  is_anomaly,
});
const record = {
  id: 'self',
  function: 'self',
  depth: 2,
  entry_us: 1000,
  exit_us: 5000,
  call_stack: [call('self', 1000, 5000, 2, true), call('step', 100, 9000, 1), call('main', 0, 0, 0)],
  window: [call('before', 500, 900, 2), call('self', 1000, 5000, 2, true), call('child', 2000, 3000, 3), call('after', 5100, 0, 2)],
} as unknown as CallRecord;

test('each call once, callers above, the call itself told apart', () => {
  const timeline = timelineOf(record);
  expect(timeline.bars.map((bar) => [bar.id, bar.depth])).toEqual([
    ['main', 0],
    ['step', 1],
    ['before', 2],
    ['self', 2],
    ['child', 3],
    ['after', 2],
  ]);
  expect(timeline.bars.filter((bar) => bar.isSelf).map((bar) => bar.id)).toEqual(['self']);
  expect(timeline.bars.filter((bar) => bar.open).map((bar) => bar.id)).toEqual(['main', 'after']);
});

test('known from the first entry to the last entry of the window, and the picture is wider than its calls', () => {
  const timeline = timelineOf(record);
  expect([timeline.knownStart, timeline.knownEnd]).toEqual([500, 5100]);
  expect(timeline.start).toBeLessThan(500);
  expect(timeline.end).toBeGreaterThan(5000);
});

test('a call that has not ended reaches as far as it is known to', () => {
  const open = { ...record, exit_us: 0, inclusive_us: 90_000, call_stack: [call('self', 1000, 0, 2, true)], window: [call('self', 1000, 0, 2, true)] };
  const timeline = timelineOf(open);
  expect(timeline.end).toBeGreaterThan(91_000);
  expect(timeline.bars.map((bar) => [bar.open, bar.end])).toEqual([[true, timeline.end]]);
});

test('of a stack too deep to draw the innermost calls are drawn', () => {
  const call_stack = Array.from({ length: 3000 }, (_, above) => call(above ? `caller ${above}` : 'self', 1000 - above / 4, above ? 0 : 5000, 2999 - above));
  const timeline = timelineOf({ ...record, depth: 2999, call_stack, window: [] });
  expect(timeline.bars.length + timeline.callersLeftOut).toBe(3000);
  expect(timeline.depths).toHaveLength(41);
  expect(timeline.bars.map((bar) => bar.id)).toContain('caller 1');
});

test('two pictures share a scale that shows both', () => {
  const own = timelineOf(record);
  const { before, after } = commonTimes(own, 1000, own, 4000);
  expect(before).toBe(4000 - own.start);
  expect(after).toBe(own.end - 1000);
});
