import { expect, test } from 'vitest';
import { ranksOf, timesOf, waitsOf } from '../../../src/incident/model/lanes';
import { decodeTimeline } from '../../../src/timeline/model/spans';
import { sceneOf } from '../../../src/timeline/model/lines';
import { PLAIN_AXIS } from '../../../src/timeline/model/timelineaxis';
import { answer } from '../../timeline/model/timelineanswer';
import { incidentOf, ORIGIN, waited } from './incident';

test('the rank where it began comes first, each rank once', () => {
  expect(ranksOf(incidentOf([waited(0, ORIGIN), waited(2, ORIGIN), waited(0, ORIGIN)]))).toEqual(['0:3', '0:0', '0:2']);
  expect(ranksOf(incidentOf([waited(0, '')], { rank: null, call_id: '' }))).toEqual(['0:0']);
});

test('the picture begins before the first call and ends after the last', () => expect(timesOf({ begin_us: 1000, end_us: 2000 })).toEqual([940, 2060]));

test('lanes are shaded while they waited, and only then', () => {
  const scene = sceneOf([decodeTimeline('0:0', answer), decodeTimeline('0:3', answer)], PLAIN_AXIS, null);
  const held = [waited(0, ORIGIN), waited(3, ORIGIN, { kind: 'in child' }), waited(7, ORIGIN)];
  const lane = scene.lanes[0];
  expect(waitsOf(scene, incidentOf(held))).toEqual([{ y: lane?.y, height: lane?.height, first: 1_000_000, last: 1_100_000 }]);
});
