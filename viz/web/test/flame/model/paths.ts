import type { Wanted } from '../../../src/flame/model/frames';
import type { PathNode } from '../../../src/shared/api/types';

const runtimes = (mean_us: number) => ({ mean_us, stddev_us: 0, minimum_us: mean_us, maximum_us: mean_us });

/** A path with calls that take so long themselves, and so long with what they call. */
export const node = (
  parent: number | null,
  name: string,
  calls = 0,
  own_us = 0,
  inclusive_us = own_us,
  severity_us = 0,
  slept_us: number | null = null,
): PathNode => ({
  parent,
  program: 0,
  function: name,
  path: severity_us > 0 ? 1 : null,
  calls,
  exclusive_us: calls * own_us,
  slept_us,
  exclusive: calls > 0 ? runtimes(own_us) : null,
  inclusive: calls > 0 ? runtimes(inclusive_us) : null,
  anomalies: severity_us > 0 ? 1 : 0,
  severity_us,
});

export const TIME: Wanted = { weight: 'time', name: '', program: null, metric: 'exclusive' };
