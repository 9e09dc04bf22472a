import { byRankOf, type ByRank, type RankColumn } from './model/byrank';
import { columnUnit, duration, exact, inUnit, percent, plural } from '../shared/units/units';
import { functionByRankRequest } from '../shared/api/functionrequests';
import { addressOf, follow, go } from '../shared/address/address';
import { byRank, subject } from './function';
import { programs, status } from '../shared/session/session';
import { ranked } from '../shared/names/answer';
import { MarkChart } from '../shared/charts/markchart';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { useSize } from '../shared/charts/size';
import { wholeTicks } from '../shared/charts/model/ticks';
import type { View } from '../shared/address/model/view';
import type { FunctionByRank, RankKey } from '../shared/api/types';

const LEFT = 44;
const TOP = 12;
const PLOT = 88;
const AXIS = 20;
/** Widest bar of a run of few ranks, in CSS pixels. */
const WIDEST = 64;

/** Exclusive time of the function on each rank; nothing in a run of one rank. */
export function ByRankPanel() {
  if ((status.value?.ranks ?? 0) < 2) return null;
  const of = subject.value;
  const found = byRank.value.value;
  const shown = found && byRankOf(found);
  const summary = found && shown ? summaryOf(found, shown) : '';
  return (
    <Panel
      name="function-by-rank"
      title="Exclusive time by rank"
      summary={summary}
      actions={found && shown && <span class="unit">{called(found) + legendOf(shown)}</span>}
      asks={of === null ? {} : { json: functionByRankRequest(of) }}
      table={shown ? () => <RankTable shown={shown} /> : undefined}
    >
      {byRank.error.value !== null ? (
        <Empty>{byRank.error.value}</Empty>
      ) : found === null ? (
        <Reading what="its time by rank" />
      ) : shown === null ? (
        <Empty>{found.ended === 0 ? 'Times by rank are known once the stream of a rank has ended.' : 'No rank whose stream has ended called it.'}</Empty>
      ) : (
        <>
          <Figures program={found.program} shown={shown} />
          <Chart program={found.program} shown={shown} summary={summary} />
        </>
      )}
    </Panel>
  );
}

const called = ({ ranks, ended }: FunctionByRank): string =>
  ranks.length === ended ? `all ${plural(ended, 'rank')}` : `called on ${exact(ranks.length)} of ${plural(ended, 'rank')}`;

const legendOf = ({ width }: ByRank): string => (width === 1 ? '' : ` · of each ${exact(width)}: median, and pale the longest`);

function summaryOf(found: FunctionByRank, shown: ByRank): string {
  const { shortest_us, median_us, p99_us, longest_us, longest } = shown;
  const times = `shortest ${duration(shortest_us)}, median ${duration(median_us)}, 99th percentile ${duration(p99_us)}, longest ${duration(longest_us)}`;
  return `${called(found)}: ${times}, on ${ranked(`${found.program}:${longest}`, programs.value)}.`;
}

/** Where a rank leads to: its call paths below the function. */
const pathsOn = (key: RankKey): Partial<View> => ({ page: 'flame', rank: key, weight: 'time', frame: '' });

function RankLink({ program, rank }: { program: number; rank: number }) {
  const key: RankKey = `${program}:${rank}`;
  const target = pathsOn(key);
  return (
    <a href={addressOf(target)} title="Its call paths below the function on this rank" data-rank={key} onClick={(event) => follow(event, target)}>
      {ranked(key, programs.value)}
    </a>
  );
}

function Figures({ program, shown }: { program: number; shown: ByRank }) {
  const { shortest_us, median_us, p99_us, longest_us } = shown;
  return (
    <dl class="figures">
      <div>
        <dt>
          shortest, <RankLink program={program} rank={shown.shortest} />
        </dt>
        <dd>{duration(shortest_us)}</dd>
      </div>
      <div>
        <dt>median</dt>
        <dd>{duration(median_us)}</dd>
      </div>
      <div>
        <dt>99th percentile</dt>
        <dd>{duration(p99_us)}</dd>
      </div>
      <div>
        <dt>
          longest, <RankLink program={program} rank={shown.longest} />
        </dt>
        <dd>
          {duration(longest_us)}
          {median_us > 0 && <span class="unit"> {percent(longest_us / median_us)} of the median</span>}
        </dd>
      </div>
    </dl>
  );
}

function Chart({ program, shown, summary }: { program: number; shown: ByRank; summary: string }) {
  const { element, width } = useSize<HTMLDivElement>();
  const { columns, longest_us } = shown;
  const pitch = Math.min(WIDEST, (width - LEFT - 4) / columns.length);
  const foot = TOP + PLOT;
  const unit = columnUnit([longest_us]);
  const y = (us: number): number => foot - (longest_us > 0 ? us / longest_us : 0) * PLOT;
  const bars = (from: (column: RankColumn) => number, to: (column: RankColumn) => number): string =>
    columns
      .map((column, at) => {
        const height = Math.max(0, y(from(column)) - y(to(column))).toFixed(1);
        return `M${(LEFT + at * pitch).toFixed(1)} ${y(from(column)).toFixed(1)}v-${height}h${Math.max(1, pitch - 0.5).toFixed(1)}v${height}z`;
      })
      .join('');
  const marks = columns.map((column, at) => ({ x: LEFT + (at + 0.5) * pitch, lines: tip(column) }));
  const open = (at: number): void => {
    const column = columns[at];
    if (column !== undefined) go(pathsOn(`${program}:${column.longest}`));
  };
  return (
    <div ref={element} class="by-rank-chart">
      {width > 0 && (
        <MarkChart kind="bar chart" label={summary} width={width} height={foot + AXIS} marks={marks} open={open}>
          <line class="base faint" x1={LEFT} x2={width} y1={TOP} y2={TOP} />
          <path
            class="bars"
            d={bars(
              () => 0,
              (column) => column.median_us,
            )}
          />
          <path
            class="bars spread"
            d={bars(
              (column) => column.median_us,
              (column) => column.longest_us,
            )}
          />
          <line class="base" x1={LEFT} x2={width} y1={foot} y2={foot} />
          <line class="usual" x1={LEFT} x2={width} y1={y(shown.median_us)} y2={y(shown.median_us)} />
          <text class="tick-text" x={LEFT - 4} y={TOP + 4} text-anchor="end">
            {inUnit(longest_us, unit)}
          </text>
          <text class="tick-text" x={LEFT - 4} y={foot} text-anchor="end">
            {unit === 'clock' ? 'h:mm:ss' : unit}
          </text>
          {wholeTicks(0, columns.length - 1, Math.max(2, Math.floor(width / 80))).map((at) => (
            <text key={at} class="tick-text" x={LEFT + (at + 0.5) * pitch} y={foot + 15} text-anchor="middle">
              {columns[at]?.first}
            </text>
          ))}
        </MarkChart>
      )}
    </div>
  );
}

const spanOf = ({ first, last }: RankColumn): string => (first === last ? String(first) : `${first}–${last}`);

function tip(column: RankColumn): string[] {
  const { ranks, calls, shortest_us, median_us, longest_us, longest } = column;
  if (ranks === 1) return [`rank ${longest}`, `${duration(longest_us)} in ${plural(calls, 'call')}`, 'click: its call paths'];
  return [
    `ranks ${spanOf(column)}`,
    `shortest ${duration(shortest_us)}, median ${duration(median_us)}`,
    `longest ${duration(longest_us)}, rank ${longest}`,
    `click: call paths of rank ${longest}`,
  ];
}

function RankTable({ shown: { columns, width, longest_us } }: { shown: ByRank }) {
  const unit = columnUnit([longest_us]);
  const number = (heading: string): { heading: string; isNumber: true } => ({ heading, isNumber: true });
  if (width === 1) {
    const perCall = columnUnit(columns.map((column) => column.longest_us / column.calls));
    return (
      <Table
        columns={['rank', 'calls', `exclusive, ${unit}`, `in each call, ${perCall}`].map(number)}
        rows={columns.map((column) => [column.first, exact(column.calls), inUnit(column.longest_us, unit), inUnit(column.longest_us / column.calls, perCall)])}
      />
    );
  }
  return (
    <Table
      columns={['ranks', 'calls', `shortest, ${unit}`, `median, ${unit}`, `longest, ${unit}`, 'longest on rank'].map(number)}
      rows={columns.map((column) => [
        spanOf(column),
        exact(column.calls),
        inUnit(column.shortest_us, unit),
        inUnit(column.median_us, unit),
        inUnit(column.longest_us, unit),
        column.longest,
      ])}
    />
  );
}
