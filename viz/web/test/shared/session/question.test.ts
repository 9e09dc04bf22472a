import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { askAgain, question } from '../../../src/shared/session/question';

let asked = 0;
let took_ms = 100;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

test('a page rests ten times as long as answers took, but not for ever', async () => {
  const answer = question(
    () => 'all',
    () => new Promise<number>((resolve) => setTimeout(() => resolve(++asked), took_ms)),
    { live: true },
  );
  expect(askAgain()).toBe(false); // The first answer is on its way.
  await pass(100);
  expect(answer.value.value).toBe(1);
  expect(askAgain()).toBe(true);
  await pass(100);
  expect(answer.value.value).toBe(2);
  await pass(990);
  expect(askAgain()).toBe(false);
  await pass(20);
  took_ms = 5000;
  expect(askAgain()).toBe(true);
  await pass(5000);
  await pass(19_900);
  expect(askAgain()).toBe(false);
  expect(askAgain(true)).toBe(true); // Whoever has a reason need not wait.
  await pass(5000);
  await pass(20_100);
  expect(askAgain()).toBe(true);
});

test('who has a reason does not wait for an answer that is on its way, which may know nothing of it', async () => {
  let news = 'before';
  const answer = question(
    () => 'all',
    () => {
      const known = news;
      return new Promise<string>((resolve) => setTimeout(() => resolve(known), 100));
    },
    { live: true },
  );
  await pass(50);
  news = 'after';
  expect(askAgain()).toBe(false);
  expect(askAgain(true)).toBe(true);
  await pass(60);
  expect(answer.value.value).toBe(null);
  await pass(40);
  expect(answer.value.value).toBe('after');
});
