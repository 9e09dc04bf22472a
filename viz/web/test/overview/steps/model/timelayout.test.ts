import { expect, test } from 'vitest';
import { barAt, timeLayout, totalOf } from '../../../../src/overview/steps/model/timelayout';
import type { StepTime, StepTimes } from '../../../../src/shared/api/types';

const SECOND = 1e6;
const step = (at: number, parts: Partial<StepTime> = {}): StepTime => ({
  step: at,
  start_us: at * SECOND,
  end_us: (at + 1) * SECOND,
  analysed: 2,
  anomalies: 0,
  severity_us: 0,
  computing_us: SECOND,
  mpi_us: SECOND,
  io_us: 0,
  gpu_us: 0,
  asleep_us: 0,
  waiting_us: 0,
  is_sampled: true,
  ...parts,
});
const made = (times: StepTime[], length = 1): StepTimes => ({ length, ranks: 2, is_sampled: true, times });
const laid = (times: StepTime[], happened: { id: string; time_us: number; text: string }[] = [], length = 1) =>
  timeLayout(made(times, length), null, 448, 136, happened);

test('parts stand on each other, and the highest bar nearly fills the chart', () => {
  const drawn = laid([step(0), step(1, { mpi_us: 3 * SECOND })]);
  expect(drawn.areas.map((area) => area.look)).toEqual(['app', 'mpi']);
  const heights = (drawn.areas[1]?.path.match(/V[\d.]+/g) ?? []).map((found) => Number(found.slice(1)));
  expect(heights[1]).toBeCloseTo(drawn.base - (drawn.base - drawn.top) / 1.05, 0);
  expect(drawn.unit).toBe('s');
});

test('a bar is as wide as its steps, and the time of several is that of one', () => {
  const [first, last] = laid(
    [step(0, { analysed: 16, computing_us: 8 * SECOND, mpi_us: 0 }), step(8, { analysed: 4, computing_us: 2 * SECOND, mpi_us: 0 })],
    [],
    8,
  ).bars;
  expect([first?.count, last?.count]).toEqual([8, 2]);
  expect((first?.x1 ?? 0) - (first?.x0 ?? 0)).toBeCloseTo(200);
});

test('steps that nothing is known of are a gap', () => {
  expect(laid([step(0), step(3)]).gaps.map((gap) => gap.steps)).toEqual([[1, 2]]);
});

test('events stand where they began, those beside each other as one', () => {
  const one = (id: string, time_us: number) => ({ id, time_us, text: id });
  const drawn = laid([step(0), step(1), step(2), step(3)], [one('I2', 3.5 * SECOND), one('I1', 0.5 * SECOND), one('I3', 0.51 * SECOND), one('I4', 9 * SECOND)]);
  expect(drawn.marks.map((mark) => mark.at.map(({ id }) => id))).toEqual([['I1', 'I3'], ['I2']]);
  expect(drawn.marks[0]?.x).toBeCloseTo(36 + 50, 0);
});

test('the bar under the pointer, or the nearest one', () => {
  const { bars } = laid([step(0), step(1)]);
  expect([barAt(bars, 0), barAt(bars, 300), barAt([], 3)]).toEqual([0, 1, null]);
  expect(totalOf(step(0, { io_us: 5 }))).toBe(2 * SECOND + 5);
});
