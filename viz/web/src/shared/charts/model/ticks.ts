/** Where the ticks of an axis stand. */

/** Round whole numbers from `first` to `last`, at most about `most` of them, none twice. */
export function wholeTicks(first: number, last: number, most: number): number[] {
  const rough = Math.max(1, (last - first) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? 1);
  const found: number[] = [];
  for (let value = Math.ceil(first / step) * step; value <= last; value += step) found.push(value);
  return found;
}

/** Round times from `first` to `last` µs, at most about `most`. */
export function timeTicks(first: number, last: number, most: number): number[] {
  const rough = Math.max(1e-3, (last - first) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const found: number[] = [];
  // `|| 0`: rounding up gives a negative zero, which would be written with its sign.
  for (let at = Math.ceil(first / step) || 0; at * step <= last; at++) found.push(at * step);
  return found;
}
