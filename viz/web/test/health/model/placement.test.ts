import { describe, expect, test } from 'vitest';
import { agreementOf, agreementText, splitOf, whereText } from '../../../src/health/model/placement';

const interval = (measured_us: number, predicted_us: number) => ({ rows_per_s: 1000, measured_us, predicted_us });

describe('predicted beside measured', () => {
  test('both are shares of the largest', () => {
    expect(agreementOf([interval(50, 100), interval(200, 180)])).toEqual({
      most_us: 200,
      points: [
        { measured: 0.25, predicted: 0.5 },
        { measured: 1, predicted: 0.9 },
      ],
    });
  });
  test('the words have the largest error, and nothing is off where nothing was measured', () => {
    expect(agreementText([interval(50, 100), interval(200, 180)])).toMatch(/^In 2 intervals, each predicted from all others, the largest error is 100\s?%\.$/);
    expect(agreementText([interval(0, 10)])).toBe('Nothing has been measured yet.');
    expect(agreementOf([])).toEqual({ most_us: 0, points: [] });
  });
});

describe('cores of a placement', () => {
  test.each([
    ['own', 1, 3, { application: 3, both: 0, analysis: 1 }, 'on 1 core of its own, 3 for the application'],
    ['inside', 1, 4, { application: 3, both: 1, analysis: 0 }, 'on 1 core of the application'],
    ['shared', 4, 4, { application: 0, both: 4, analysis: 0 }, 'on all 4 cores'],
    ['shared', 2, 2, { application: 0, both: 2, analysis: 0 }, 'on both cores'],
    ['shared', 1, 1, { application: 0, both: 1, analysis: 0 }, 'on the one core'],
    ['own', 0.5, 3, { application: 3, both: 0, analysis: 0.5 }, 'on 1 core of its own, by a quota of 0.5 core, 3 for the application'],
    ['inside', 0.25, 4, { application: 3.75, both: 0.25, analysis: 0 }, 'on 1 core of the application, by a quota of 0.25 core'],
    ['shared', 0.25, 4, { application: 3.75, both: 0.25, analysis: 0 }, 'on all cores, by a quota of 0.25 core'],
    ['shared', 4, 2, { application: 0, both: 4, analysis: 0 }, 'on all 4 cores'],
  ])('%s on %d', (where, cores, application_cores, split, text) => {
    expect(splitOf({ where, cores, application_cores })).toEqual(split);
    expect(whereText({ where, cores, application_cores })).toBe(text);
  });
});
