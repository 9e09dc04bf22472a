/** Quantities that the axes of the chart of calls can show. */

export const AXES = [
  'entry',
  'exit',
  'function',
  'inclusive',
  'exclusive',
  'severity',
  'score',
  'label',
  'children',
  'messages',
  'thread',
  'gpu',
  'rank',
  'step',
] as const;
export type Axis = (typeof AXES)[number];

export const SCALES = ['linear', 'log'] as const;
export type Scale = (typeof SCALES)[number];

interface Kind {
  title: string;
  /** Kind of its values: names stand in rows, `whole` are integers. */
  kind: 'names' | 'time' | 'duration' | 'whole' | 'real';
  /** Scale that suits it best; null where there is only one. */
  scale: Scale | null;
}

export const AXIS_KINDS: Readonly<Record<Axis, Kind>> = {
  entry: { title: 'entry', kind: 'time', scale: null },
  exit: { title: 'exit', kind: 'time', scale: null },
  function: { title: 'function', kind: 'names', scale: null },
  inclusive: { title: 'inclusive', kind: 'duration', scale: 'log' },
  exclusive: { title: 'exclusive', kind: 'duration', scale: 'log' },
  severity: { title: 'severity (time lost)', kind: 'duration', scale: 'log' },
  score: { title: 'score', kind: 'real', scale: 'linear' },
  label: { title: 'label', kind: 'names', scale: null },
  children: { title: 'children', kind: 'whole', scale: 'linear' },
  messages: { title: 'messages', kind: 'whole', scale: 'linear' },
  thread: { title: 'thread', kind: 'names', scale: null },
  gpu: { title: 'on a GPU', kind: 'names', scale: null },
  rank: { title: 'rank', kind: 'names', scale: null },
  step: { title: 'step', kind: 'whole', scale: null },
};

/** Scale in use: the chosen one, where there is a choice. */
export function scaleOf(axis: Axis, chosen: Scale | null): Scale {
  const { scale } = AXIS_KINDS[axis];
  return scale === null ? 'linear' : (chosen ?? scale);
}
