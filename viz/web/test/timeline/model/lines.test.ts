import { describe, expect, test } from 'vitest';
import { decodeTimeline } from '../../../src/timeline/model/spans';
import { PLAIN_AXIS } from '../../../src/timeline/model/timelineaxis';
import {
  across,
  anomaliesOf,
  arrowAt,
  arrowsOf,
  beside,
  lineAt,
  nextAnomaly,
  parentOf,
  ribbonOf,
  ROW,
  sceneOf,
  spotAt,
  spotOf,
  tellingArrows,
  type Spot,
} from '../../../src/timeline/model/lines';
import { abnormalIn, arrowLines, rangeText, ribbonLines, sceneAnswer, sourceText, spotLines } from '../../../src/timeline/model/timelinewords';
import { answer } from './timelineanswer';

const wording = { zero_us: 0, programs: 1, metric: 'exclusive', scoreUnit: 'σ' } as const;
const own = decodeTimeline('0:1', answer);
const other = decodeTimeline('0:2', {
  ...answer,
  links: {
    ...answer.links,
    kinds: [1],
    times_us: [130],
    threads: [0],
    depths: [0],
    other_us: [120],
    other_ranks: [1],
    other_threads: [0],
    other_depths: [1],
    tags: [9],
    sizes_bytes: [8000],
    counts: [1],
  },
});
const scene = sceneOf([own, other], PLAIN_AXIS, null);
const chosen = spotOf(scene, '0:1:1:9') as Spot;

describe('a scene', () => {
  test('has a line for each depth of each rank', () => {
    expect(scene.lines.map((line) => [line.spans.rank, line.row.depth, line.y])).toEqual([
      ['0:1', 0, 0],
      ['0:1', 1, 20],
      ['0:2', 0, 46],
      ['0:2', 1, 66],
    ]);
    expect(scene.height).toBe(86);
    expect(lineAt(scene, 43)).toBeNull();
  });

  test('distinguishes what was not kept from what was lost', () => {
    expect(scene.lanes[0]?.notKept).toEqual([
      [0, 100],
      [400, 600],
      [800, 1000],
    ]);
    expect(scene.lanes[0]?.lost).toEqual([[450, 500]]);
  });

  test('calls are found by place and by id', () => {
    expect(spotAt(scene, ROW + 5, 200, 0)).toEqual(chosen);
    expect(spotOf(scene, '0:1:1:13')).toBeNull();
    expect(spotOf(scene, '0:3:1:9')).toBeNull();
    expect(spotOf(scene, null)).toBeNull();
  });

  test('keys go from call to call', () => {
    expect(beside(chosen, 1)?.at).toBe(2);
    expect(beside(chosen, -2)).toBeNull();
    expect(parentOf(scene, chosen)?.line).toBe(scene.lines[0]);
    expect(parentOf(scene, { line: chosen.line, at: 0 })?.at).toBe(0);
    expect(across(scene, chosen, 1)?.line).toBe(scene.lines[2]);
    expect(across(scene, chosen, -2)).toBeNull();
  });

  test('each abnormal call has its place in the ribbon', () => {
    const spots = anomaliesOf(scene);
    expect(spots).toHaveLength(2);
    expect(ribbonOf(spots, (time) => time, 1000).map((mark) => [mark.x, mark.spots.length])).toEqual([[150, 2]]);
    expect(ribbonOf(spots, (time) => time - 500, 400)).toEqual([]);
    expect(nextAnomaly(spots, 100, 1)).toBe(spots[0]);
    expect(nextAnomaly(spots, 100, -1)).toBe(spots[1]);
    expect(nextAnomaly([], 100, 1)).toBeNull();
  });
});

describe('arrows', () => {
  const arrows = arrowsOf(scene, (time) => time, 1000);

  test('a message that both ends report is one, from sender to receiver', () => {
    expect(arrows).toHaveLength(2);
    expect(arrows[0]).toMatchObject({ x: 120, y: 30, to: { x: 130, y: 56 }, isInward: false });
    expect(arrows[1]).toMatchObject({ x: 700, to: null, isInward: true });
  });

  test('are pointed at from nearby', () => {
    expect(arrowAt(arrows, 125, 43, 4)).toBe(arrows[0]);
    expect(arrowAt(arrows, 140, 43, 4)).toBeNull();
    expect(arrowAt(arrows, 700, 22, 4)).toBe(arrows[1]);
  });

  test('of a whole run are only those that somebody waited for, and those of the calls that are looked at', () => {
    const receiver = spotAt(scene, 46, 130, 0);
    expect(tellingArrows(arrows, 11_000, [null])).toEqual([arrows[0]]);
    expect(tellingArrows(arrows, 11_001, [null])).toEqual([]);
    expect(tellingArrows(arrows, 11_001, [receiver])).toEqual([arrows[0]]);
    expect(tellingArrows(arrows, 11_001, [spotAt(scene, 20, 110, 0)])).toEqual([arrows[0]]);
  });

  test('say what they are', () => {
    expect(arrowLines(arrows[0] as (typeof arrows)[0], wording)).toEqual([
      'message of 8 kB, tag 9',
      'rank 1 → rank 2',
      'sent +00:00:00.000',
      'received +00:00:00.000',
      'in transit for 10 µs',
      'rank 2 had waited 110 µs when it was sent',
      'click: go to its other end',
    ]);
    expect(arrowLines(arrows[1] as (typeof arrows)[0], wording)).toContain('click: show rank 3, too');
  });
});

describe('words', () => {
  test('of an abnormal call', () => {
    const lines = spotLines(scene, chosen, wording);
    expect(lines.slice(0, 4)).toEqual(['relax', 'inclusive 100 µs, exclusive 90 µs', 'expected 30 µs exclusive, 3×', '▲ 60 µs lost, score 8 σ']);
    expect(lines).toContain('called by main · 0 children, 1 message');
    expect(lines.length).toBeLessThanOrEqual(8);
  });

  test('of merged calls, and of one without a record', () => {
    expect(spotLines(scene, { line: chosen.line, at: 2 }, wording)[0]).toBe('5 short calls in 3 µs');
    expect(spotLines(scene, { line: chosen.line, at: 0 }, wording)).toContain('click: select');
    expect(spotLines(scene, { line: scene.lines[0] as Spot['line'], at: 0 }, wording).join()).toContain('has not ended');
    expect(spotLines(scene, { line: scene.lines[0] as Spot['line'], at: 0 }, { ...wording, isOver: true }).join()).toContain('to the end of what was recorded');
  });

  test('of the page', () => {
    expect(sceneAnswer([own], [0, 1000], wording)).toBe('Rank 1: 1 abnormal call; the worst is relax, 60 µs lost.');
    expect(sceneAnswer([own, other], [0, 1000], wording)).toBe('2 ranks: 2 abnormal calls; the worst is relax on rank 1, 60 µs lost.');
    expect(sceneAnswer([own], [300, 1000], wording)).toBe('Rank 1: no abnormal call in this time.');
    const worst = abnormalIn([own, other], [0, 1000]);
    expect(worst.map(({ id }) => id)).toEqual(['0:1:1:9', '0:2:1:9']);
    expect(worst.map(({ call }) => call.function)).toEqual(['relax', 'relax']);
    expect(sourceText([own])).toContain('not kept');
    expect(sourceText([{ ...own, source: 'trace' }])).toBe('All calls of the recorded trace. Calls shorter than 4 µs are merged, except for abnormal ones.');
    expect(rangeText(86e6, 86.6e6, 0)).toBe('86.000–86.600 s');
    expect(ribbonLines(ribbonOf(anomaliesOf(scene), (time) => time, 1000)[0] as Parameters<typeof ribbonLines>[0], wording)[0]).toBe('▲ 2 abnormal calls');
  });
});
