/** State of the feed, updated every second, because ages grow while nothing arrives. */

import { computed, effect, signal } from '@preact/signals';
import { bannerOf, conditionOf, type Circumstances } from './model/status';
import { arrivedWhilePaused, lostAt, paused, refused, status } from './session';

/** Time over which the growth of the lag is measured. */
const TREND_MS = 10_000;

export const now_ms = signal(Date.now());
const lags: { at_ms: number; lag_us: number }[] = [];
const lagGrowth_us = signal(0);

setInterval(() => (now_ms.value = Date.now()), 1000);

effect(() => {
  const lag_us = status.value?.lag_us ?? null;
  const at_ms = Date.now();
  if (lag_us === null) lags.length = 0;
  else lags.push({ at_ms, lag_us });
  while (lags.length > 1 && at_ms - (lags[0] as { at_ms: number }).at_ms > TREND_MS) lags.shift();
  lagGrowth_us.value = lag_us === null ? 0 : lag_us - (lags[0]?.lag_us ?? lag_us);
});

const circumstances = computed((): Circumstances => ({
  status: status.value,
  lost_s: lostAt.value === null ? null : Math.max(0, Math.round((now_ms.value - lostAt.value) / 1000)),
  refused: refused.value,
  paused: paused.value,
  arrived: arrivedWhilePaused.value,
  lagGrowth_us: lagGrowth_us.value,
}));

export const condition = computed(() => conditionOf(circumstances.value));
export const banner = computed(() => bannerOf(circumstances.value));
