/** Numbers in columns, as the server sends what is long. */

/** The values, of which each but the first says how much it exceeds the one before; they are changed in place. */
export function summed<T extends Float64Array | Int32Array | number[]>(values: T): T {
  for (let at = 1; at < values.length; at++) values[at] = (values[at] as number) + (values[at - 1] as number);
  return values;
}
