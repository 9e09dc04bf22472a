/** Formats of numbers: three significant digits, one unit per column. */

import type { Bound } from '../api/types';

export type DurationUnit = 'µs' | 'ms' | 's' | 'clock';

const DIVISOR: Record<DurationUnit, number> = { µs: 1, ms: 1e3, s: 1e6, clock: 1e6 };
const GROUPED = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const MINUS = '−';

/** Replace a leading hyphen by a minus, and drop that of a zero. */
const negated = (text: string): string => text.replace(/^-/, /[1-9]/.test(text) ? MINUS : '');

/** Format a number with three significant digits, grouped, without an exponent: 0.123, 12.3, 1,234. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 100) return exact(Math.round(value));
  const decimals = size >= 10 ? 1 : size >= 1 ? 2 : Math.min(6, 2 - Math.floor(Math.log10(size)));
  return negated(String(Number(value.toFixed(decimals))));
}

/** Format a number with a fixed number of decimals. */
export const fixed = (value: number, decimals: number): string => negated(value.toFixed(decimals));

/** Format a change with its sign, where `form` formats its size. */
export function signed(value: number, form: (size: number) => string): string {
  return `${value < 0 ? MINUS : '+'}${form(Math.abs(value))}`;
}

/** Format a change in percent: +10.3 %, from a factor of 2 on +240 %. */
export function change(effect: number): string {
  return `${signed(100 * effect, (percents) => (percents < 100 ? percents.toFixed(1) : digits(percents)))} %`;
}

/** Unit in which a duration has one to three digits before the decimal point. */
export function durationUnit(us: number): DurationUnit {
  const size = Math.abs(us);
  if (size < 999.5) return 'µs';
  if (size < 999.5e3) return 'ms';
  return size < 59.95e6 ? 's' : 'clock';
}

/** Format a duration in a given unit, without the unit's name. */
export function inUnit(us: number, unit: DurationUnit): string {
  return unit === 'clock' ? clock(us) : digits(us / DIVISOR[unit]);
}

/** Format a duration as sentences of the server do: 212 µs, 142 s, 16 min 40 s, 3 h 58 min, 1,234 h. */
export function duration(us: number): string {
  const size = Math.abs(us);
  if (size < 999.5e6) {
    const unit = size < 59.95e6 ? durationUnit(us) : 's';
    return `${inUnit(us, unit)} ${unit}`;
  }
  const sign = us < 0 ? MINUS : '';
  const minutes = Math.round(size / 60e6);
  if (size < 3599.5e6) return `${sign}${Math.floor(Math.round(size / 1e6) / 60)} min ${Math.round(size / 1e6) % 60} s`;
  return sign + (minutes < 6000 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${exact(size / 3600e6)} h`);
}

/** How sure a lost time is, before its number in a column. */
export const sign = (bound: Bound = 'exact'): string => ({ exact: '', estimated: '≈ ', 'at least': '≥ ' })[bound];

/** Format a lost time in a sentence with how sure it is. */
export const bounded = (us: number, bound: Bound = 'exact'): string => `${bound === 'at least' ? 'at least ' : sign(bound)}${duration(us)}`;

/** Parse a duration such as `5 ms`, `200us` or `1.5 s` to µs; without a unit, it is in milliseconds. */
export function parseDuration(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*(us|µs|μs|ms|s)?$/.exec(text.trim().replace(/,/g, ''));
  if (!match) return null;
  const divisor = { us: 1, µs: 1, μs: 1, ms: 1e3, s: 1e6 }[match[2] ?? 'ms'] ?? 1;
  return Number(match[1]) * divisor;
}

/** Unit of a column or axis: that of its largest value. */
export function columnUnit(values: Iterable<number>): DurationUnit {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  return durationUnit(largest);
}

/** Unit of a column of lost times: seconds up to an hour, because the largest value is often a sum beside short ones. */
export function lostUnit(values: readonly number[]): DurationUnit {
  const unit = columnUnit(values);
  return unit === 'clock' && Math.max(...values) < 3600e6 ? 's' : unit;
}

/** Format a time as a clock: 2:05 or 1:12:06. */
export function clock(us: number): string {
  const seconds = Math.round(Math.abs(us) / 1e6);
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const sign = us < 0 ? MINUS : '';
  return h > 0 ? `${sign}${h}:${pad(m)}:${pad(s)}` : `${sign}${m}:${pad(s)}`;
}

/** Time since the run's start: +01:05:12.482. */
export function sinceStart(us: number): string {
  const ms = Math.round(Math.abs(us) / 1e3);
  const [h, m, s] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60, Math.floor(ms / 1000) % 60];
  return `${us < 0 ? MINUS : '+'}${pad(h)}:${pad(m)}:${pad(s)}.${String(ms % 1000).padStart(3, '0')}`;
}

/** Date and time of day with the time zone: 2026-11-21 10:31:04.482 Z. */
export function wallClock(us: number): string {
  return new Date(us / 1e3).toISOString().replace('T', ' ').replace('Z', ' Z');
}

/** Time of day in the same time zone: 10:31:04.482. */
export function wallTime(us: number, decimals = 3): string {
  const whole = new Date(us / 1e3).toISOString().slice(11, 19);
  if (decimals === 0) return whole;
  const fraction = Math.floor(us) % 1e6;
  return `${whole}.${String(fraction).padStart(6, '0').slice(0, decimals)}`;
}

/** Format a count: 10,000, from a million on 2.1 M. */
export function count(n: number): string {
  if (Math.abs(n) < 1e6) return exact(n);
  const [divisor, unit] = Math.abs(n) < 1e9 ? [1e6, 'M'] : [1e9, 'G'];
  return `${digits(n / divisor)} ${unit}`;
}

/** Format a count with all digits, grouped: 12,345,678. */
export function exact(n: number): string {
  return negated(GROUPED.format(n));
}

/** Format a size: 8 kB, where a kB is 1000 bytes. */
export function bytes(n: number): string {
  for (const [divisor, unit] of [
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
  ] as const) {
    if (Math.abs(n) >= divisor) return `${digits(n / divisor)} ${unit}`;
  }
  return `${n} B`;
}

/** Format a ratio: 3.1×, from ten on 1,234×, as in the server's sentences. */
export function ratio(value: number): string {
  return `${value >= 9.95 ? exact(Math.round(value)) : digits(Number(value.toPrecision(2)))}×`;
}

/** Format a share from 0 to 1 as 0.8 %; null is unknown, not zero. */
export function percent(share: number | null): string {
  return share === null ? 'unknown' : `${digits(share * 100)} %`;
}

/** Format a detector's score with its unit. */
export function score(value: number, unit: string): string {
  return `${digits(value)} ${unit}`.trimEnd();
}

/** Heading of a column of scores. */
export function scoreHeading(unit: string): string {
  return ['score', unit].filter(Boolean).join(', ');
}

/** Format a count with its noun: 1 anomaly, 2,000 anomalies. */
export function plural(n: number, noun: string): string {
  return `${count(n)} ${n === 1 ? noun : noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}

function pad(n: number): string {
  return String(n).padStart(2, '0');
}
