/** Details of a cell of the heat map, in words, and the selection of its worst rank. */

import { ranked } from '../../shared/names/answer';
import { lostOfCode } from './model/bins';
import { MOST, UNKNOWN } from './model/grid';
import { nodesOf, placesOf, rankRangeAt, ranksAt, startOf, stepsOf, valuesOf, type Cell, type HeatLayout, type RankSpan } from './model/heatlayout';
import { shorten } from '../../shared/names/names';
import { duration, exact, plural } from '../../shared/units/units';
import { formatRange } from '../../shared/address/model/ranges';
import { view } from '../../shared/address/address';
import { timeText } from '../../shared/session/clock';
import { worstOf, type Worst } from './grid';
import { getSteps } from '../steps/requests';
import { worstCall } from '../overview';
import { say } from '../../shared/session/page';
import { programs } from '../../shared/session/session';
import { choose } from '../choose';

export interface Found extends Worst {
  /** Time lost by all abnormal calls of the rank in the step; null where it is not known. */
  step_lost_us: number | null;
  function: string | null;
  /** Time lost by the worst call. */
  lost_us: number;
}

/** Key of a cell's contents, which changes with them. */
export const keyOf = (layout: HeatLayout, { row, column }: Cell): string =>
  `${view.value.measure} ${placesOf(layout, row, row).join()} ${stepsOf(layout, column).join()} ${Object.values(valuesOf(layout, { row, column })).join()}`;

/** Whether there are anomalies in a cell. */
export function isCounted(layout: HeatLayout, cell: Cell): boolean {
  const { count } = valuesOf(layout, cell);
  return count !== 0 && count !== UNKNOWN;
}

/** Find the worst rank and step of a cell, and the function of its worst call. */
export async function ask(layout: HeatLayout, { row, column }: Cell, signal: AbortSignal): Promise<Found | null> {
  const worst = await worstOf(placesOf(layout, row, row), stepsOf(layout, column), signal);
  if (worst === null) return null;
  const [call, step_lost_us] = await Promise.all([worstCall(worst.rank, worst.step, signal), lostIn(worst, signal)]);
  return { ...worst, step_lost_us, function: call && shorten(call.function, 40).text, lost_us: call?.severity_us ?? 0 };
}

/** Time that a rank lost in a step; null where it is no longer known. */
async function lostIn({ rank, step }: Worst, signal: AbortSignal): Promise<number | null> {
  const rows = (await getSteps([rank], signal, [step, step])).get(rank);
  return rows?.[0]?.[5] ?? null;
}

/** Select the worst rank of a cell, announce it, and list the cell's calls, unless the user has done something else meanwhile. */
export async function select(layout: HeatLayout, { row, column }: Cell, isWanted: () => boolean): Promise<void> {
  const steps = stepsOf(layout, column);
  try {
    const worst = await worstOf(placesOf(layout, row, row), steps, AbortSignal.timeout(10_000));
    if (!isWanted()) return;
    if (worst === null) return say('None of these steps was analysed on any rank of this cell.');
    const lost_us = worst.count === 0 ? 0 : await lostIn(worst, AbortSignal.timeout(10_000));
    if (!isWanted()) return;
    choose(worst.rank, { rank: rankRangeAt(layout, row), steps, cursor: null });
    const name = ranked(worst.rank, programs.value);
    say(
      worst.count === 0
        ? `${name} is selected; no rank had anomalies here.`
        : `${name} had ${anomalies(worst.count)} in step ${exact(worst.step)}${lost_us === null ? '' : `, which lost ${duration(lost_us)}`}: ${
            view.value.measure === 'lost' ? 'most time' : 'most'
          } of this cell.`,
    );
  } catch {
    say('The server did not tell which rank is the worst here: try again.');
  }
}

const anomalies = (count: number): string => plural(count, 'anomaly') + (count === MOST ? ' or more' : '');

/** Lines of a cell's tooltip. */
export function tipOf(layout: HeatLayout, cell: Cell, found: Found | null): string[] {
  const { count, lost } = valuesOf(layout, cell);
  const places = placesOf(layout, cell.row, cell.row);
  const steps = stepsOf(layout, cell.column);
  const start = startOf(layout, cell.column);
  const silent = layout.grid.silent.filter(({ place }) => place >= places[0] && place <= places[1]);
  const about = `about ${duration(Number(lostOfCode(lost).toPrecision(2)))} lost`;
  const { show } = layout.grid;
  const [counted, lostTime] = {
    worst: [`at most ${anomalies(count)} of one rank in one step`, `at most ${about} by one rank in one step`],
    sum: [`about ${anomalies(count)}, the sum of its ranks`, `${about}, the sum of its ranks`],
    p99: [`99 % of its ranks had at most ${anomalies(count)} in one step`, `99 % of its ranks: at most ${about} in one step`],
  }[show] as [string, string];
  const both = view.value.measure === 'lost' ? [lostTime, counted] : [counted, lostTime];
  const nodes = nodesOf(layout, cell.row);
  const what = count === UNKNOWN ? ['not analysed: unknown'] : count === 0 ? ['no anomalies'] : both;
  const worst = found
    ? [
        `most: ${ranked(found.rank, programs.value)}, step ${exact(found.step)}${found.step_lost_us === null ? '' : `: ${duration(found.step_lost_us)} lost by ${anomalies(found.count)}`}`,
        ...(found.function === null ? [] : [`the worst call in ${found.function}: ${duration(found.lost_us)} lost`]),
      ]
    : [];
  return [
    ...(nodes === '' ? [] : [`node ${nodes}`]),
    `${places[0] === places[1] ? 'rank' : 'ranks'} ${spansText(ranksAt(layout.grid, places))}`,
    `${steps[0] === steps[1] ? 'step' : 'steps'} ${formatRange(steps)}`,
    ...what,
    ...worst,
    ...(start > 0 ? [`from ${timeText(start)}`] : []),
    ...(silent.length > 0 ? [`${plural(silent.length, 'silent rank')}`] : []),
    count === UNKNOWN ? 'drag: zoom' : 'click: select the worst rank, list the calls · drag: zoom',
  ];
}

/** Lines of the tooltip of a row's label. */
export function rowLines(layout: HeatLayout, row: number): string[] {
  const places = placesOf(layout, row, row);
  const nodes = nodesOf(layout, row);
  const named = `${places[0] === places[1] ? 'rank' : 'ranks'} ${spansText(ranksAt(layout.grid, places))}`;
  const { open } = view.value;
  const isPart = open !== null && places[0] >= open[0] && places[1] <= open[1];
  const act = places[0] < places[1] ? ['click: open it in place'] : isPart ? ['click: close it'] : [];
  return [...(nodes === '' ? [] : [`node ${nodes}`]), named, ...act];
}

/** Ranks such as `0..19`, with their program where there are several. */
export function spansText(spans: readonly RankSpan[]): string {
  const several = programs.value > 1;
  return spans.map(({ program, first, last }) => `${several ? `${program}:` : ''}${formatRange([first, last])}`).join(', ');
}
