/** Columns of numbers, in the form in which the server sends long ones. */

/** Convert differences to values, in place: each number but the first is the difference to the one before. */
export function summed<T extends Float64Array | Int32Array | number[]>(values: T): T {
  for (let at = 1; at < values.length; at++) values[at] = (values[at] as number) + (values[at - 1] as number);
  return values;
}
