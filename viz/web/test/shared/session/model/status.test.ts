import { describe, expect, test } from 'vitest';
import { bannerOf, conditionOf, whyRefused, type Circumstances } from '../../../../src/shared/session/model/status';
import type { Status } from '../../../../src/shared/api/types';

const status = { state: 'live', sentence: '', clock_us: 3_912_000_000, anomalies: 14 } as Status;
const now = (more: Partial<Circumstances>, of: Partial<Status> = {}): Circumstances => ({
  status: { ...status, ...of },
  lost_s: null,
  refused: '',
  paused: false,
  arrived: 0,
  lagGrowth_us: 0,
  ...more,
});

describe('each condition has words of its own', () => {
  test('live needs none', () => expect(bannerOf(now({}))).toBe(''));
  test('a lost link says since when, what is shown, and what to look at', () =>
    expect(bannerOf(now({ lost_s: 12, paused: true }))).toBe(
      'Connection lost 12 s ago, retrying. Is the SSH tunnel open, and is the server running? Shown: as of +01:05:12.000.',
    ));
  test('a server that answers, and does not let the page in, says why', () => {
    expect(bannerOf(now({ lost_s: 12, refused: whyRefused(401, 'no token') }))).toBe(
      'The server was restarted and has another token: open the address that it printed. Shown: as of +01:05:12.000.',
    );
    expect(whyRefused(404, "No run 'a' here")).toBe("No run 'a' here.");
  });
  test('paused says at what, and what has come', () => expect(bannerOf(now({ paused: true, arrived: 312 }))).toBe('Paused at +01:05:12.000 · 312 new.'));
  test.each([
    [2_000_000, 'Analysis 14 s behind the application, growing.'],
    [-2_000_000, 'Analysis 14 s behind the application, catching up.'],
    [100_000, 'Analysis 14 s behind the application.'],
  ])('behind says which way it goes: %i', (lagGrowth_us, words) =>
    expect(bannerOf(now({ lagGrowth_us }, { state: 'behind', sentence: 'Analysis 14 s behind the application.' }))).toBe(words),
  );
  test('stale and silent ranks say what the server says', () => {
    expect(bannerOf(now({}, { state: 'stale', sentence: 'No step for 14 s.' }))).toBe('No step for 14 s.');
    expect(bannerOf(now({}, { sentence: 'Rank 0:1 gives no step.' }))).toBe('Rank 0:1 gives no step.');
  });
  test('ended is no alarm', () => {
    const ended = now({}, { state: 'ended', sentence: 'Finished, exit 0.' });
    expect(bannerOf(ended)).toBe('');
  });
  test('before the first answer', () => {
    expect(conditionOf(now({ status: null }))).toBe('connecting');
    expect(bannerOf({ ...now({ lost_s: 1 }), status: null })).toContain('Shown: nothing yet.');
  });
});

test('a lost link comes before pause, pause before what the server said', () => {
  expect(conditionOf(now({ lost_s: 0, paused: true }, { state: 'stale' }))).toBe('lost');
  expect(conditionOf(now({ paused: true }, { state: 'stale' }))).toBe('paused');
});
