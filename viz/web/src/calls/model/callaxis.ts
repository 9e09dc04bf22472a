/** One axis of the chart of calls: the position of each call along it, and its ticks. Lengths in CSS pixels. */

import { scaleLinear, scaleLog } from 'd3-scale';
import { AXIS_KINDS, scaleOf, type Axis, type Scale } from '../../shared/address/model/axes';
import type { Wording } from './callpoints';
import { shortenAll } from '../../shared/names/names';
import { columnUnit, digits, durationUnit, exact, fixed, inUnit, scoreHeading, type DurationUnit } from '../../shared/units/units';
import type { Span } from '../../shared/address/model/ranges';
import type { PointColumns, Points } from '../../shared/api/types';
import { logTicks, roundTicks, wholeTicks } from '../../shared/charts/model/ticks';

export interface Tick {
  at: number;
  text: string;
}

export interface PlacedAxis {
  title: string;
  ticks: Tick[];
  /** Positions of the lines that set apart calls without a position on the scale: zero on a logarithmic axis, exits of open calls. */
  breaks: number[];
  /** The value at a position; null on an axis of names. */
  valueAt: ((at: number) => number) | null;
}

/** Room for calls without a position on the scale: zero on a logarithmic axis, exits of open calls. */
const ASIDE = 28;
/** Characters of a name that fit beside the chart. */
const NAME = 22;
/** Least characters of a name: rather than shorten names further, every second one is left out. */
const SHORT_NAME = 14;
/** Quantity, scale and range that an axis is to show. */
export interface WantedAxis {
  axis: Axis;
  scale: Scale | null;
  /** Values at its ends; null shows all calls. */
  range: Span | null;
}

export interface Placed {
  /** Position of each call; NaN for one outside the range. */
  at: Float32Array;
  axis: PlacedAxis;
  /** Pixels from one whole value to the next; 0 on any other axis. */
  unit: number;
}

/** Lay out the calls along an axis; `wide` says whether its texts stand side by side. */
export function layOutAlong(points: Points, wanted: WantedAxis, from: number, to: number, wide: boolean, wording: Wording): Placed {
  const { axis, range } = wanted;
  const { kind, title } = AXIS_KINDS[axis];
  if (kind === 'names') return placeNames(points, axis, title, from, to, wide, wording);
  const scale = scaleOf(axis, wanted.scale);
  const values = valuesOf(points.columns, axis, wording.zero_us);
  const hasPlace = (value: number): boolean => !Number.isNaN(value) && (scale === 'linear' || value > 0);
  const way = Math.sign(to - from);
  // Calls without a position on the scale stand beside it, unless only a part of the axis is shown.
  const [hasZero, hasOpen] = [range === null && scale === 'log' && values.some((value) => value <= 0), range === null && values.some(Number.isNaN)];
  const [first, last] = [from + (hasZero ? way * ASIDE : 0), to - (hasOpen ? way * ASIDE : 0)];
  const found = values.filter(hasPlace);
  const domain = range ?? (scale === 'log' ? decades(found) : extent(found, kind));
  const project = (scale === 'log' ? scaleLog : scaleLinear)(domain, [first, last]);
  const named = numberTicks(kind, domain, scale, Math.max(2, Math.floor(Math.abs(last - first) / (wide ? 90 : 30))));
  const ticks = named.ticks.map(({ at, text }) => ({ at: project(at), text }));
  const [zeroAt, openAt] = [from + (way * ASIDE) / 2, to - (way * ASIDE) / 2];
  if (hasZero) ticks.unshift({ at: zeroAt, text: '0' });
  if (hasOpen) ticks.push({ at: openAt, text: 'open' });
  const isInside = (value: number): boolean => hasPlace(value) && value >= domain[0] && value <= domain[1];
  const aside = (value: number): number => (range !== null ? NaN : Number.isNaN(value) ? openAt : zeroAt);
  const at = Float32Array.from(values, (value) => (isInside(value) ? project(value) : aside(value)));
  const breaks = [...(hasZero ? [first] : []), ...(hasOpen ? [last] : [])];
  const unit = kind === 'whole' && scale === 'linear' ? Math.abs(project(1) - project(0)) : 0;
  return {
    at,
    axis: { title: `${axis === 'score' ? scoreHeading(wording.scoreUnit) : title}${named.unit}`, ticks, breaks, valueAt: (at) => project.invert(at) },
    unit: unit >= 8 ? unit : 0,
  };
}

/** Values of the calls on an axis of numbers; NaN where there is none yet. */
function valuesOf(columns: PointColumns, axis: Axis, zero_us: number): number[] {
  switch (axis) {
    case 'entry':
      return columns.entry_us.map((entry) => entry - zero_us);
    case 'exit':
      return columns.entry_us.map((entry, at) => (columns.is_open[at] ? NaN : entry - zero_us + (columns.inclusive_us[at] as number)));
    case 'messages':
      return columns.messages_count;
    case 'inclusive':
    case 'exclusive':
    case 'severity':
      return columns[`${axis}_us`];
    case 'score':
    case 'children':
    case 'step':
      return columns[axis];
    default:
      return [];
  }
}

/** Range of the values, slightly widened; counts begin at zero. */
function extent(values: readonly number[], kind: string): Span {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
  if (least > most) return [0, 1];
  if (kind === 'duration' || kind === 'real') return [Math.min(0, least), most > 0 ? most * 1.05 : 1];
  if (kind === 'whole') return [least - 0.5, most + 0.5];
  const margin = Math.max((most - least) * 0.03, 1);
  return [least - margin, most + margin];
}

function decades(values: readonly number[]): Span {
  let [least, most] = [Infinity, 0];
  for (const value of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
  return least > most ? [1, 10] : [least / 1.3, most * 1.3];
}

/** Ticks at round values, all in one unit, which the title names. */
function numberTicks(kind: string, domain: Span, scale: Scale, most: number): { ticks: Tick[]; unit: string } {
  const values =
    scale === 'log' ? logTicks(...domain, most) : kind === 'whole' ? wholeTicks(Math.ceil(domain[0]), Math.floor(domain[1]), most) : clockTicks(domain, most);
  if (kind === 'whole') return { ticks: values.map((at) => ({ at, text: exact(at) })), unit: '' };
  if (kind === 'real') return { ticks: values.map((at) => ({ at, text: digits(at) })), unit: '' };
  if (kind === 'duration') {
    // A clock does not show fractions of a second.
    const unit = scale === 'log' ? durationUnit(Math.min(domain[1], 1e6)) : columnUnit(domain);
    return { ticks: values.map((at) => ({ at, text: inUnit(at, unit) })), unit: `, ${unit === 'clock' ? 'h:mm:ss' : unit}` };
  }
  const unit = columnUnit(domain);
  const step = (values[1] ?? domain[1]) - (values[0] ?? domain[0]);
  return { ticks: values.map((at) => ({ at, text: timeText(at, unit, step) })), unit: `, ${unit === 'clock' ? 'h:mm:ss' : unit} since the start` };
}

/** Seconds between ticks that are round on a clock. */
const CLOCK_STEPS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];

/** Round values; for times that are shown as a clock, round ones on a clock. */
function clockTicks([least, most]: Span, room: number): number[] {
  const seconds = (most - least) / 1e6 / room;
  const step = columnUnit([least, most]) === 'clock' && seconds > 10 ? (CLOCK_STEPS.find((one) => one >= seconds) ?? 86_400) * 1e6 : 0;
  if (step === 0) return roundTicks(least, most, room);
  return Array.from({ length: Math.floor(most / step) - Math.ceil(least / step) + 1 }, (_, at) => (Math.ceil(least / step) + at) * step || 0);
}

const DIVISOR = { µs: 1, ms: 1e3, s: 1e6, clock: 1e6 } as const;

/** A time with as many decimals as ticks that are `step` apart need to differ. */
export function timeText(us: number, unit: DurationUnit, step: number): string {
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / DIVISOR[unit]) - 1e-9));
  if (unit !== 'clock') return fixed(us / DIVISOR[unit], decimals);
  const shift = 10 ** decimals;
  const rounded = Math.round((us / 1e6) * shift);
  const whole = Math.floor(rounded / shift);
  return inUnit(whole * 1e6, 'clock') + (decimals > 0 ? `.${String(rounded - whole * shift).padStart(decimals, '0')}` : '');
}

/** Rows of an axis of names, and the row of each call. */
function rowsOf(points: Points, axis: Axis, wording: Wording): { names: string[]; row: (at: number) => number } {
  const { columns } = points;
  if (axis === 'function') {
    const order = byLoss(points);
    const rank = new Map(order.map((number, row) => [number, row]));
    return { names: order.map((number) => points.functions[number] as string), row: (at) => rank.get(columns.function[at] as number) as number };
  }
  if (axis === 'label') return { names: ['anomaly', 'normal'], row: (at) => (columns.is_anomaly[at] ? 0 : 1) };
  if (axis === 'gpu') return { names: ['yes', 'no'], row: (at) => (columns.is_gpu[at] ? 0 : 1) };
  if (axis === 'thread') {
    const threads = [...new Set(columns.thread)].sort((a, b) => a - b);
    const rank = new Map(threads.map((thread, row) => [thread, row]));
    return { names: threads.map(String), row: (at) => rank.get(columns.thread[at] as number) as number };
  }
  const places = points.ranks.map((_, at) => at).sort((a, b) => rankOrder(points.ranks[a] as string, points.ranks[b] as string));
  const order = new Map(places.map((number, row) => [number, row]));
  const name = (rank: string): string => (wording.programs > 1 ? rank : (rank.split(':')[1] as string));
  return { names: places.map((number) => name(points.ranks[number] as string)), row: (at) => order.get(columns.rank[at] as number) as number };
}

function rankOrder(a: string, b: string): number {
  const [[program, rank], [otherProgram, otherRank]] = [a.split(':').map(Number), b.split(':').map(Number)] as [[number, number], [number, number]];
  return program - otherProgram || rank - otherRank;
}

/** Functions that have calls, the most time lost first. */
function byLoss({ functions, columns }: Points): number[] {
  const lost = new Map<number, number>();
  columns.function.forEach((number, at) => lost.set(number, (lost.get(number) ?? 0) + (columns.is_anomaly[at] ? (columns.severity_us[at] as number) : 0)));
  const name = (number: number): string => functions[number] as string;
  return [...lost.keys()].sort((a, b) => (lost.get(b) as number) - (lost.get(a) as number) || (name(a) < name(b) ? -1 : 1));
}

function placeNames(points: Points, axis: Axis, title: string, from: number, to: number, wide: boolean, wording: Wording): Placed {
  const { names, row } = rowsOf(points, axis, wording);
  const unit = Math.abs(to - from) / Math.max(1, names.length);
  const middle = (number: number): number => from + (number + 0.5) * unit;
  const room = wide ? Math.max(SHORT_NAME, Math.min(NAME, Math.floor(unit / 6.5))) : NAME;
  const short = axis === 'function' ? shortenAll(names, room) : null;
  const ticks: Tick[] = [];
  names.forEach((name, number) => {
    const text = short?.get(name)?.text ?? name;
    const needs = wide ? text.length * 6.5 + 8 : 13;
    const before = ticks[ticks.length - 1];
    // Where there is no room for all names, the first ones are shown: they are the worst.
    if (before === undefined || middle(number) - before.at >= (wide ? (needs + before.text.length * 6.5 + 8) / 2 : needs))
      ticks.push({ at: middle(number), text });
  });
  const at = Float32Array.from(points.columns.rank, (_, call) => middle(row(call)));
  return { at, axis: { title, ticks, breaks: [], valueAt: null }, unit };
}
