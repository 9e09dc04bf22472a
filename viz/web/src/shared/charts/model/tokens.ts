/** Colours of the dashboard, in pairs [light, dark]. A test checks their contrasts. */

export type Theme = 'light' | 'dark';
export type Pair = readonly [light: string, dark: string];

export const COLOURS = {
  page: ['#F4F6F8', '#0E1217'],
  surface: ['#FFFFFF', '#151A21'],
  text: ['#1A2129', '#E6EAF0'],
  'text-2': ['#4A5562', '#B4BECA'],
  tick: ['#59636E', '#9AA5B1'],
  control: ['#76818E', '#717D8B'],
  border: ['#D3D9E0', '#2B333D'],
  accent: ['#1656B8', '#7FB2FF'],
  selected: ['#E6EFFB', '#1D2B40'],
  anomaly: ['#C2410C', '#FF7A45'],
  faster: ['#1B5FAE', '#6FB1FF'],
  amber: ['#8A5A00', '#E3A93C'],
  'amber-banner': ['#FBEBC8', '#3D2F10'],
  unknown: ['#C3CAD3', '#3A434E'],
  hatch: ['#76818E', '#717D8B'],
  edge: ['#66717E', '#8E9AA8'],
} as const satisfies Record<string, Pair>;

export type ColourName = keyof typeof COLOURS;

/** Colours of the heat map's bins; zero is the surface. */
export const HEAT_RAMP: readonly Pair[] = [
  ['#D67D13', '#B33F50'],
  ['#CB5A00', '#D25246'],
  ['#BD3500', '#EC6E38'],
  ['#9E2418', '#F89431'],
  ['#77211D', '#FCBD44'],
  ['#4B1D1B', '#F8E786'],
];

/** Colours of selected ranks; a slot's shape is `SHAPES[slot % 6]`, hollow from slot 6 on. */
export const SLOT_COLOURS: readonly Pair[] = [
  ['#2B3A88', '#92A8FC'],
  ['#B28E4E', '#FCDDA2'],
  ['#006648', '#44AF8E'],
  ['#6B66D6', '#7E74CC'],
  ['#248DA6', '#8EE3FB'],
  ['#6B234B', '#A3668C'],
];

export const SLOTS = 12;

/** Fills of timeline bars by group of function; an underline shows the group, too. */
export const GROUP_FILLS = {
  app: ['#DCE4F0', '#2B3B54'],
  mpi: ['#E3D8F7', '#45366E'],
  io: ['#F3E4BF', '#57451A'],
  gpu: ['#CBE9DA', '#1D4D3A'],
  runtime: ['#CCE8F1', '#1A485A'],
  other: ['#E7E9EC', '#39414B'],
} as const satisfies Record<string, Pair>;

export type Group = keyof typeof GROUP_FILLS;

export function pick(pair: Pair, theme: Theme): string {
  return theme === 'light' ? pair[0] : pair[1];
}

/** Red, green and blue of `#RRGGBB`, from 0 to 255. */
export function rgbOf(colour: string): readonly [red: number, green: number, blue: number] {
  const at = (start: number): number => parseInt(colour.slice(start, start + 2), 16);
  return [at(1), at(3), at(5)];
}

/** An opaque `#RRGGBB` as one pixel of an image's bytes, read as little-endian 32-bit numbers. */
export function pixelOf(colour: string): number {
  const [red, green, blue] = rgbOf(colour);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Outlines in a box from -1 to 1, as SVG path data: used by the page and on canvases alike. */
export const SHAPES: readonly string[] = [
  'M-0.9 0A0.9 0.9 0 1 1 0.9 0A0.9 0.9 0 1 1 -0.9 0Z',
  'M-0.8 -0.8H0.8V0.8H-0.8Z',
  'M-0.3 -0.95H0.3V-0.3H0.95V0.3H0.3V0.95H-0.3V0.3H-0.95V-0.3H-0.3Z',
  'M-0.88 -0.5L-0.5 -0.88L0 -0.38L0.5 -0.88L0.88 -0.5L0.38 0L0.88 0.5L0.5 0.88L0 0.38L-0.5 0.88L-0.88 0.5L-0.38 0Z',
  'M0 -1L0.26 -0.34L0.95 -0.31L0.41 0.13L0.59 0.81L0 0.42L-0.59 0.81L-0.41 0.13L-0.95 -0.31L-0.26 -0.34Z',
  'M-0.5 -0.87H0.5L1 0L0.5 0.87H-0.5L-1 0Z',
];

export const TRIANGLE = 'M0 -0.9L0.95 0.8H-0.95Z';
export const TRIANGLE_DOWN = 'M0 0.9L0.95 -0.8H-0.95Z';

/** Shape of a slot; ranks without a slot are grey dots. */
export function shapeOf(slot: number): { path: string; hollow: boolean } {
  return { path: SHAPES[slot % SHAPES.length] as string, hollow: slot >= SHAPES.length };
}
