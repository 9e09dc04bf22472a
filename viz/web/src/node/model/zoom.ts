/** Zooming and panning within the time of which there are samples, in µs since the epoch. */

type Times = readonly [begin: number, end: number];
const LEAST_US = 1000;

/** Times of which the length is multiplied by a factor, about their middle; null where that is the whole time. */
export function zoomed([begin, end]: Times, whole: Times, factor: number): Times | null {
  const length = Math.max(LEAST_US, (end - begin) * factor);
  if (length >= whole[1] - whole[0]) return null;
  return within([(begin + end - length) / 2, length], whole);
}

/** Times moved by a share of their length. */
export function moved([begin, end]: Times, whole: Times, share: number): Times {
  return within([begin + share * (end - begin), end - begin], whole);
}

function within([begin, length]: readonly [number, number], whole: Times): Times {
  const from = Math.min(Math.max(begin, whole[0]), Math.max(whole[0], whole[1] - length));
  return [Math.round(from), Math.round(from + length)];
}
