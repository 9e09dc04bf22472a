import { trendOf, type Trend, type TrendColumn } from './model/trend';
import { clock, columnUnit, duration, exact, inUnit, percent, sinceStart } from '../shared/units/units';
import * as api from '../shared/api/functionrequests';
import { go } from '../shared/address/address';
import { subject, trend, trendBy } from './function';
import { status, zero_us } from '../shared/session/session';
import { MarkChart } from '../shared/charts/markchart';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { useSize } from '../shared/charts/size';
import { roundTicks } from '../shared/charts/model/ticks';

const LEFT = 44;
const PLOT = 76;
const GAP = 20;
const AXIS = 20;

/** Abnormal calls of the function and the time that they lost, over the run. */
export function TrendPanel() {
  const of = subject.value;
  const found = trend.value.value;
  const { last_step = 0, clock_us = 0, loss = null } = status.value ?? {};
  const shown = found && trendOf(found, zero_us.value, last_step ?? 0, clock_us);
  const total = shown?.columns.reduce((sum, column) => sum + column.anomalies, 0) ?? 0;
  const by = shown?.by === 'time' ? `interval of ${duration(shown.width)}` : 'step';
  const summary = shown ? `${exact(total)} recorded anomalies in ${exact(shown.columns.length)} ${by}s of the run.` : '';
  const asks = of === null ? {} : { json: api.trendRequest(of, trendBy.value), hasSql: true };
  return (
    <Panel
      name="function-trend"
      title={`Over the run, per ${by}`}
      summary={summary}
      actions={<span class="unit">{`no bar: none recorded${(loss ?? 0) > 0 ? `, or among the ${percent(loss)} of steps not analysed` : ''}`}</span>}
      asks={asks}
      table={() => shown && <TrendTable trend={shown} />}
    >
      {trend.error.value !== null ? (
        <Empty>{trend.error.value}</Empty>
      ) : shown === null ? (
        <Reading what="its trend" />
      ) : shown.columns.length === 0 ? (
        <Empty>No abnormal call of this function was recorded.</Empty>
      ) : (
        <Chart trend={shown} summary={summary} />
      )}
    </Panel>
  );
}

function Chart({ trend, summary }: { trend: Trend; summary: string }) {
  const { element, width } = useSize<HTMLDivElement>();
  const xOf = (at: number): number => LEFT + ((at - trend.first) / (trend.end - trend.first)) * (width - LEFT - 4);
  const bar = Math.max(1, xOf(trend.first + trend.width) - LEFT - 0.5);
  const most = Math.max(...trend.columns.map((column) => column.anomalies));
  const mostLost = Math.max(...trend.columns.map((column) => column.severity_us));
  const unit = columnUnit([mostLost]);
  const feet = [PLOT + 12, 2 * PLOT + GAP + 12] as const;
  const marks = trend.columns.map((column) => ({ x: xOf(column.at) + bar / 2, lines: tip(column, trend) }));
  return (
    <div ref={element} class="trend-chart">
      {width > 0 && (
        <MarkChart kind="bar chart" label={summary} width={width} height={feet[1] + AXIS} marks={marks} open={(at) => open(trend.columns[at])}>
          <Plot title="anomalies" foot={feet[0]} width={width} most={exact(most)} />
          <path class="bars flagged" d={bars(trend, (column) => column.anomalies / most, xOf, bar, feet[0])} />
          <Plot title={`lost, ${unit === 'clock' ? 'h:mm:ss' : unit}`} foot={feet[1]} width={width} most={inUnit(mostLost, unit)} />
          <path class="bars lost" d={bars(trend, (column) => column.severity_us / mostLost, xOf, bar, feet[1])} />
          {ticks(trend, width).map(({ at, text }) => (
            <text key={at} class="tick-text" x={xOf(at)} y={feet[1] + 15} text-anchor="middle">
              {text}
            </text>
          ))}
        </MarkChart>
      )}
    </div>
  );
}

function Plot({ title, foot, width, most }: { title: string; foot: number; width: number; most: string }) {
  return (
    <>
      <line class="base" x1={LEFT} x2={width} y1={foot} y2={foot} />
      <line class="base faint" x1={LEFT} x2={width} y1={foot - PLOT} y2={foot - PLOT} />
      <text class="tick-text" x={LEFT - 4} y={foot - PLOT + 4} text-anchor="end">
        {most}
      </text>
      <text class="tick-text" x={LEFT - 4} y={foot} text-anchor="end">
        0
      </text>
      <text class="tick-text" x={LEFT} y={foot - PLOT - 4}>
        {title}
      </text>
    </>
  );
}

function bars(trend: Trend, share: (column: TrendColumn) => number, xOf: (at: number) => number, width: number, foot: number): string {
  return trend.columns
    .map((column) => {
      const height = Math.max(2, share(column) * PLOT).toFixed(1);
      return `M${xOf(column.at).toFixed(1)} ${foot}v-${height}h${width.toFixed(1)}v${height}z`;
    })
    .join('');
}

function ticks({ by, first, end }: Trend, width: number): { at: number; text: string }[] {
  const most = Math.max(2, Math.floor(width / 80));
  if (by === 'time') return roundTicks(first, end, most).map((at) => ({ at, text: clock(at) }));
  return roundTicks(first, end - 1, most)
    .filter(Number.isInteger)
    .map((at) => ({ at: at + 0.5, text: exact(at) }));
}

function tip(column: TrendColumn, trend: Trend): string[] {
  const when = column.step === null ? `${sinceStart(column.at)} to ${sinceStart(column.at + trend.width)}` : `step ${exact(column.step)}`;
  return [`${exact(column.anomalies)} anomalies`, `${duration(column.severity_us)} lost`, when, 'click: its calls'];
}

function open(column: TrendColumn | undefined): void {
  if (column === undefined) return;
  const when =
    column.step === null
      ? { times: [Math.max(0, column.at), column.at + (trend.value.value?.width_us ?? 0)] as const }
      : { steps: [column.step, column.step] as const };
  go({ page: 'calls', label: 'anomaly', call: null, cursor: null, ...when });
}

function TrendTable({ trend }: { trend: Trend }) {
  const unit = columnUnit(trend.columns.map((column) => column.severity_us));
  return (
    <table>
      <thead>
        <tr>
          <th class="number">{trend.by === 'step' ? 'step' : 'from'}</th>
          <th class="number">anomalies</th>
          <th class="number">lost, {unit}</th>
        </tr>
      </thead>
      <tbody>
        {trend.columns.map((column) => (
          <tr key={column.at}>
            <td class="number">{column.step === null ? sinceStart(column.at) : exact(column.step)}</td>
            <td class="number">{exact(column.anomalies)}</td>
            <td class="number">{inUnit(column.severity_us, unit)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
