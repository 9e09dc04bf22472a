/** Where each call of the chart stands, which marks hide others, and which is meant. Lengths in CSS pixels. */

import { AXIS_KINDS, scaleOf, type Axis, type Scale } from './axes';
import { isFaster, type Telling } from './callpoints';
import { shortenAll } from './names';
import { ticks as wholeTicks } from './scatter';
import { timeTicks } from './timeline';
import type { PointColumns, Points } from './types';
import { columnUnit, digits, durationUnit, exact, inUnit, type DurationUnit } from './units';

export interface Tick {
  at: number;
  text: string;
}

export interface PlacedAxis {
  title: string;
  ticks: Tick[];
  /** Lines between what has values and what has none: zero on a logarithmic axis, exits of open calls. */
  breaks: number[];
}

export interface CallLayout {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  base: number;
  x: Float32Array;
  y: Float32Array;
  size: Uint8Array;
  kind: Uint8Array;
  /** Places of the marks in the order in which they are drawn: the worst call last. */
  drawn: Uint32Array;
  /** Normal calls that are not drawn, for another stands within the same 2 × 2 pixels. */
  covered: number;
  /** How far the smallest anomalies are seen: of very many only the larger ones must stand out. */
  opacity: number;
  xAxis: PlacedAxis;
  yAxis: PlacedAxis;
}

export const NORMAL = 0;
export const SLOWER = 1;
export const FASTER = 2;

/** What is wanted of the chart. */
export interface Wanted {
  x: Axis;
  y: Axis;
  xScale: Scale | null;
  yScale: Scale | null;
}

/** Room for what has no place on an axis: zero on a logarithmic one, an exit that has not happened. */
const ASIDE = 28;
const MARGIN = { top: 10, right: 14, base: 34, named: 156, numbered: 64 };
/** Characters of a name that fit beside the chart. */
const NAME = 22;
/** A name that is shorter is not recognised: rather every second one is left out. */
const SHORT_NAME = 14;
const CELL = 2;
/** Marks that cover each other all over a chart. */
const CROWD = 5_000;
/** Between calls that stand side by side. */
const LANE = 8;

/** Lay out the chart. */
export function layoutCalls(points: Points, wanted: Wanted, width: number, height: number, telling: Telling): CallLayout {
  const isNamed = AXIS_KINDS[wanted.y].kind === 'names';
  const left = isNamed ? MARGIN.named : MARGIN.numbered;
  const [right, top, base] = [Math.max(left + 1, width - MARGIN.right), MARGIN.top, Math.max(MARGIN.top + 1, height - MARGIN.base)];
  const across = place(points, wanted.x, scaleOf(wanted.x, wanted.xScale), left, right, 1, telling);
  // A number grows upwards, names are read downwards.
  const [from, to] = isNamed ? [top, base] : [base, top];
  const up = place(points, wanted.y, scaleOf(wanted.y, wanted.yScale), from, to, 0, telling);
  const { kind, size } = marks(points, telling);
  if (across.unit > 0 && up.unit > 0) spread(across, up);
  else if (up.unit > 0) stack(up.at, across.at, up.unit);
  else if (across.unit > 0) stack(across.at, up.at, across.unit);
  const { drawn, covered } = visible(points.columns, kind, across.at, up.at, width, height);
  const frame = { width, height, left, right, top, base };
  const opacity = drawn.length > CROWD ? 0.4 : 1;
  return { ...frame, x: across.at, y: up.at, size, kind, drawn, covered, opacity, xAxis: across.axis, yAxis: up.axis };
}

/** The mark nearest to a position, no farther than `reach`; of those at one place the one on top. -1 for none. */
export function nearestCall(layout: CallLayout, x: number, y: number, reach = 12): number {
  let [best, distance] = [-1, reach * reach];
  for (const at of layout.drawn) {
    const squared = ((layout.x[at] as number) - x) ** 2 + ((layout.y[at] as number) - y) ** 2;
    if (squared <= distance) [best, distance] = [at, squared];
  }
  return best;
}

export type Direction = 'ArrowRight' | 'ArrowLeft' | 'ArrowUp' | 'ArrowDown';

/** The nearest mark in a direction, rather ahead than aside; the same one where there is none. */
export function neighbourCall(layout: CallLayout, from: number, direction: Direction): number {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[direction] as [number, number];
  const [x0, y0] = [layout.x[from] as number, layout.y[from] as number];
  let [best, least] = [from, Infinity];
  for (const at of layout.drawn) {
    const [x, y] = [(layout.x[at] as number) - x0, (layout.y[at] as number) - y0];
    const along = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along <= 0) continue;
    const far = along + 2 * aside;
    if (far < least) [best, least] = [at, far];
  }
  return best;
}

interface Placed {
  at: Float32Array;
  axis: PlacedAxis;
  /** Pixels from one value to the next, where there is nothing between; else 0. */
  unit: number;
}

/** Put the calls along an axis; `wide` where its texts stand side by side. */
function place(points: Points, axis: Axis, scale: Scale, from: number, to: number, wide: 0 | 1, telling: Telling): Placed {
  const { kind, title } = AXIS_KINDS[axis];
  if (kind === 'names') return placeNames(points, axis, title, from, to, wide, telling);
  const values = valuesOf(points.columns, axis, telling.zero_us);
  const finite = values.filter((value) => !Number.isNaN(value) && (scale === 'linear' || value > 0));
  const way = Math.sign(to - from);
  const [hasZero, hasOpen] = [scale === 'log' && values.some((value) => value <= 0), axis === 'exit' && points.columns.is_open.some(Boolean)];
  const [first, last] = [from + (hasZero ? way * ASIDE : 0), to - (hasOpen ? way * ASIDE : 0)];
  const domain = scale === 'log' ? decades(finite) : extent(finite, kind);
  const project = projection(domain, scale, first, last);
  const most = Math.max(2, Math.floor(Math.abs(last - first) / (wide ? 90 : 30)));
  const named = numberTicks(kind, domain, scale, most);
  const ticks = named.ticks.map(({ at, text }) => ({ at: project(at), text }));
  const [zeroAt, openAt] = [from + (way * ASIDE) / 2, to - (way * ASIDE) / 2];
  if (hasZero) ticks.unshift({ at: zeroAt, text: '0' });
  if (hasOpen) ticks.push({ at: openAt, text: 'open' });
  const at = Float32Array.from(values, (value) => (Number.isNaN(value) ? openAt : scale === 'log' && value <= 0 ? zeroAt : project(value)));
  const breaks = [...(hasZero ? [first] : []), ...(hasOpen ? [last] : [])];
  const unit = kind === 'whole' && scale === 'linear' ? Math.abs(project(1) - project(0)) : 0;
  const sigma = axis === 'score' && telling.detector === 'sstd' ? ', σ' : '';
  return { at, axis: { title: `${title}${sigma}${named.unit}`, ticks, breaks }, unit: unit >= 8 ? unit : 0 };
}

/** Values of calls along an axis of numbers; NaN where there is none yet. */
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

type Domain = readonly [least: number, most: number];

/** From the least to the most, a little wider; what counts from nothing begins there. */
function extent(values: readonly number[], kind: string): Domain {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
  if (least > most) return [0, 1];
  if (kind === 'duration' || kind === 'real') return [Math.min(0, least), most > 0 ? most * 1.05 : 1];
  if (kind === 'whole') return [least - 0.5, most + 0.5];
  const margin = Math.max((most - least) * 0.03, 1);
  return [least - margin, most + margin];
}

function decades(values: readonly number[]): Domain {
  let [least, most] = [Infinity, 0];
  for (const value of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
  return least > most ? [1, 10] : [least / 1.3, most * 1.3];
}

function projection([least, most]: Domain, scale: Scale, from: number, to: number): (value: number) => number {
  if (scale === 'linear') return (value) => from + ((value - least) / (most - least)) * (to - from);
  const [low, high] = [Math.log(least), Math.log(most)];
  return (value) => from + ((Math.log(value) - low) / (high - low)) * (to - from);
}

/** Round values with their texts, all in one unit, which the title names. */
function numberTicks(kind: string, domain: Domain, scale: Scale, most: number): { ticks: Tick[]; unit: string } {
  const values = scale === 'log' ? logTicks(domain, most) : kind === 'whole' ? wholeTicks(Math.ceil(domain[0]), Math.floor(domain[1]), most) : clockTicks(domain, most);
  if (kind === 'whole') return { ticks: values.map((at) => ({ at, text: exact(at) })), unit: '' };
  if (kind === 'real') return { ticks: values.map((at) => ({ at, text: digits(at) })), unit: '' };
  if (kind === 'duration') {
    // Parts of a second have no place on a clock.
    const unit = scale === 'log' ? durationUnit(Math.min(domain[1], 1e6)) : columnUnit(domain);
    return { ticks: values.map((at) => ({ at, text: inUnit(at, unit) })), unit: `, ${unit === 'clock' ? 'h:mm:ss' : unit}` };
  }
  const unit = columnUnit(domain);
  const step = (values[1] ?? domain[1]) - (values[0] ?? domain[0]);
  return { ticks: values.map((at) => ({ at, text: timeText(at, unit, step) })), unit: `, ${unit === 'clock' ? 'h:mm:ss' : unit} since the start` };
}

/** Seconds between ticks that read well on a clock. */
const CLOCK_STEPS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];

/** Round values; of times that are read on a clock, round ones there. */
function clockTicks([least, most]: Domain, room: number): number[] {
  const seconds = (most - least) / 1e6 / room;
  const step = columnUnit([least, most]) === 'clock' && seconds > 10 ? (CLOCK_STEPS.find((one) => one >= seconds) ?? 86_400) * 1e6 : 0;
  if (step === 0) return timeTicks(least, most, room);
  return Array.from({ length: Math.floor(most / step) - Math.ceil(least / step) + 1 }, (_, at) => (Math.ceil(least / step) + at) * step || 0);
}

const DIVISOR = { µs: 1, ms: 1e3, s: 1e6, clock: 1e6 } as const;

/** A time as exactly as ticks that are `step` apart need it: no two read the same. */
export function timeText(us: number, unit: DurationUnit, step: number): string {
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / DIVISOR[unit]) - 1e-9));
  if (unit !== 'clock') return (us / DIVISOR[unit]).toFixed(decimals);
  const shift = 10 ** decimals;
  const rounded = Math.round((us / 1e6) * shift);
  const whole = Math.floor(rounded / shift);
  return inUnit(whole * 1e6, 'clock') + (decimals > 0 ? `.${String(rounded - whole * shift).padStart(decimals, '0')}` : '');
}

/** 1, 2 and 5 of each decade, or 1 only, or of each few decades 1, as many as there is room for. */
export function logTicks([least, most]: Domain, room: number): number[] {
  const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const of = (factors: readonly number[], each: number): number[] => {
    const found: number[] = [];
    for (let decade = Math.ceil(low / each) * each; decade <= high; decade += each) {
      for (const factor of factors) found.push(factor * 10 ** decade);
    }
    return found.filter((value) => value >= least && value <= most);
  };
  const finest = of([1, 2, 5], 1);
  if (finest.length <= room) return finest;
  for (let each = 1; ; each++) {
    const found = of([1], each);
    if (found.length <= Math.max(room, 2)) return found;
  }
}

/** Rows of an axis of names, and which of them each call is in. */
function rowsOf(points: Points, axis: Axis, telling: Telling): { names: string[]; row: (at: number) => number } {
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
  const name = (rank: string): string => (telling.programs > 1 ? rank : (rank.split(':')[1] as string));
  return { names: places.map((number) => name(points.ranks[number] as string)), row: (at) => order.get(columns.rank[at] as number) as number };
}

function rankOrder(a: string, b: string): number {
  const [[program, rank], [otherProgram, otherRank]] = [a.split(':').map(Number), b.split(':').map(Number)] as [[number, number], [number, number]];
  return program - otherProgram || rank - otherRank;
}

/** Functions that have calls, those that lost most time first. */
function byLoss({ functions, columns }: Points): number[] {
  const lost = new Map<number, number>();
  columns.function.forEach((number, at) => lost.set(number, (lost.get(number) ?? 0) + (columns.is_anomaly[at] ? (columns.severity_us[at] as number) : 0)));
  const name = (number: number): string => functions[number] as string;
  return [...lost.keys()].sort((a, b) => (lost.get(b) as number) - (lost.get(a) as number) || (name(a) < name(b) ? -1 : 1));
}

function placeNames(points: Points, axis: Axis, title: string, from: number, to: number, wide: 0 | 1, telling: Telling): Placed {
  const { names, row } = rowsOf(points, axis, telling);
  const unit = Math.abs(to - from) / Math.max(1, names.length);
  const middle = (number: number): number => from + (number + 0.5) * unit;
  const room = wide ? Math.max(SHORT_NAME, Math.min(NAME, Math.floor(unit / 6.5))) : NAME;
  const short = axis === 'function' ? shortenAll(names, room) : null;
  const ticks: Tick[] = [];
  names.forEach((name, number) => {
    const text = short?.get(name)?.text ?? name;
    const needs = wide ? text.length * 6.5 + 8 : 13;
    const before = ticks[ticks.length - 1];
    // Where there is no room for all, the first ones are named: they are the worst.
    if (before === undefined || middle(number) - before.at >= (wide ? (needs + before.text.length * 6.5 + 8) / 2 : needs)) ticks.push({ at: middle(number), text });
  });
  const at = Float32Array.from(points.columns.rank, (_, call) => middle(row(call)));
  return { at, axis: { title, ticks, breaks: [] }, unit };
}

/** Where both axes know no between, calls of one place are laid out around it: golden steps fill it evenly. */
function spread(across: Placed, up: Placed): void {
  const [roomX, roomY] = [Math.min(across.unit, 120) * 0.7, Math.min(up.unit, 120) * 0.7];
  const before = new Map<string, number>();
  for (let at = 0; at < across.at.length; at++) {
    const [x, y] = [across.at[at] as number, up.at[at] as number];
    const number = before.get(`${x} ${y}`) ?? 0;
    before.set(`${x} ${y}`, number + 1);
    across.at[at] = x + (((number * 0.7548777 + 0.5) % 1) - 0.5) * roomX;
    up.at[at] = y + (((number * 0.5698403 + 0.5) % 1) - 0.5) * roomY;
  }
}

/** Calls of one row that would cover each other stand side by side, the first in the middle, as far as there is room. */
function stack(rows: Float32Array, along: Float32Array, unit: number): void {
  const lanes = Math.max(1, Math.floor((unit * 0.8) / LANE));
  const before = new Map<number, number>();
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at] as number;
    const cell = Math.round(row) * 65_536 + Math.floor((along[at] as number) / LANE);
    const number = before.get(cell) ?? 0;
    before.set(cell, number + 1);
    const lane = number % lanes;
    rows[at] = row + Math.ceil(lane / 2) * (lane % 2 === 0 ? LANE : -LANE);
  }
}

/** What each mark is, and how large: 6, 8, 11 pixels by the time lost, beside the most that is lost. */
function marks({ columns }: Points, telling: Telling): { kind: Uint8Array; size: Uint8Array } {
  const most = columns.severity_us[0] ?? 0;
  const kind = new Uint8Array(columns.rank.length);
  const size = new Uint8Array(columns.rank.length).fill(6);
  const [inclusive, exclusive, expected] = [columns.inclusive_us, columns.exclusive_us, columns.expected_us];
  for (let at = 0; at < kind.length; at++) {
    if (!columns.is_anomaly[at]) continue;
    const call = { inclusive_us: inclusive[at] as number, exclusive_us: exclusive[at] as number, expected_us: expected[at] as number };
    kind[at] = isFaster(call, telling.metric) ? FASTER : SLOWER;
    size[at] = sizeOf(columns.severity_us[at] as number, most);
  }
  return { kind, size };
}

export function sizeOf(severity_us: number, most_us: number): number {
  return severity_us * 3 >= most_us ? 11 : severity_us * 10 >= most_us ? 8 : 6;
}

/** All anomalies, the worst on top, over normal calls of which one is drawn in each cell. */
function visible({ is_anomaly }: PointColumns, kind: Uint8Array, x: Float32Array, y: Float32Array, width: number, height: number): { drawn: Uint32Array; covered: number } {
  const columns = Math.ceil(width / CELL) + 1;
  const taken = new Uint8Array(columns * (Math.ceil(height / CELL) + 1));
  const drawn = new Uint32Array(kind.length);
  let count = 0;
  for (let at = 0; at < kind.length; at++) {
    if (is_anomaly[at]) continue;
    const cell = Math.floor((y[at] as number) / CELL) * columns + Math.floor((x[at] as number) / CELL);
    if (taken[cell] === 1) continue;
    taken[cell] = 1;
    drawn[count++] = at;
  }
  let normal = 0;
  for (let at = kind.length - 1; at >= 0; at--) if (is_anomaly[at]) drawn[count + normal++] = at;
  const shown = count + normal;
  return { drawn: drawn.slice(0, shown), covered: kind.length - shown };
}
