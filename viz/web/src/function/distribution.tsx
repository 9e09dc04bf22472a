import {
  bucketsOf,
  callsIn,
  columnsOf,
  flaggedText,
  inLanes,
  limitsOf,
  logAxis,
  percentile,
  shareBelow,
  type Axis,
  type Column,
  type Label,
} from './model/distribution';
import { columnUnit, count, duration, exact, inUnit, percent } from '../shared/units/units';
import { known } from './function';
import { run } from '../shared/session/session';
import type { Asks } from '../shared/parts/panelmenu';
import { MarkChart } from '../shared/charts/markchart';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { useSize } from '../shared/charts/size';
import type { Bucket, Distribution, FunctionDetail } from '../shared/api/types';

/** Mark on the axis of runtimes: a call, or what is usual. */
export interface RuntimeMark {
  sign: '▲' | '▼' | '◎' | '○' | '┊';
  us: number;
  text: string;
}

interface Props {
  asks: Asks;
  marks: (distribution: Distribution) => readonly RuntimeMark[];
  /** Note below the picture; empty where there is none. */
  note: (distribution: Distribution) => string;
}

/** Distribution of the function's runtimes, with the limits of flagging and marks of some calls. */
export function DistributionPanel({ asks, marks, note }: Props) {
  const found = known.value.value;
  const metric = run.value.value?.config.metric ?? 'exclusive';
  const distribution = found?.distribution ?? null;
  const title = `${metric === 'inclusive' ? 'Inclusive' : 'Exclusive'} runtimes`;
  const actions = distribution && (
    <span class="unit" data-n={callsIn(distribution, metric)}>
      n = {count(callsIn(distribution, metric))} · {flaggedText(distribution)}
    </span>
  );
  const shown = distribution && marks(distribution);
  const noted = distribution === null ? '' : note(distribution);
  const summary =
    distribution === null || shown === null
      ? ''
      : `${exact(callsIn(distribution, metric))} calls; ${flaggedText(distribution)}; ${shown.map((mark) => mark.text).join('; ')}.`;
  return (
    <Panel
      name="distribution"
      title={title}
      summary={summary}
      actions={actions}
      asks={asks}
      table={() => distribution && <DistributionTable distribution={distribution} metric={metric} />}
    >
      {known.error.value !== null ? (
        <Empty>{known.error.value}</Empty>
      ) : found === null ? (
        <Reading what="the function" />
      ) : distribution === null || shown === null ? (
        <NotKept found={found} />
      ) : (
        <>
          <Chart distribution={distribution} metric={metric} marks={shown} summary={summary} />
          {noted !== '' && <p class="unit">{noted}</p>}
        </>
      )}
    </Panel>
  );
}

function NotKept({ found }: { found: FunctionDetail }) {
  const { statistics } = found;
  return (
    <Empty>
      There is no model of this function yet. Its {count(statistics.calls)} calls took {duration(statistics.exclusive_mean_us)} ±{' '}
      {duration(statistics.exclusive_stddev_us)} exclusive.
    </Empty>
  );
}

type Metric = 'exclusive' | 'inclusive';

interface ChartProps {
  distribution: Distribution;
  metric: Metric;
  marks: readonly RuntimeMark[];
  summary: string;
}

const LANE = 16;
const PLOT = 160;
const AXIS = 20;
/** Greatest width of a character in the axis' labels, in CSS pixels. */
const CHARACTER = 7;

function Chart({ distribution, metric, marks, summary }: ChartProps) {
  const { element, width } = useSize<HTMLDivElement>();
  const buckets = bucketsOf(distribution);
  const limits = limitsOf(distribution);
  const { mean_us, stddev_us } = distribution[metric];
  const ends =
    buckets === null
      ? [Math.max(0.5, mean_us - 3 * stddev_us), mean_us + 3 * stddev_us]
      : buckets.flatMap((bucket) => [Math.max(0.5, bucket.lower_us), bucket.upper_us]);
  const axis = logAxis([...ends, ...limits, ...marks.map((mark) => mark.us)], width);
  const labels = inLanes(
    [
      ...limits.map((us) => ({ us, sign: '', text: `flag ${us === limits[0] && distribution.ordinary[0]?.lower_us != null ? '<' : '≥'} ${duration(us)}` })),
      ...marks,
    ].map((mark) => ({ ...mark, x: axis.xOf(mark.us) })),
    width,
  );
  const top = LANE * (1 + Math.max(0, ...labels.map((label) => label.lane)));
  const height = top + PLOT + AXIS;
  const columns = columnsOf(distribution, axis, PLOT - 8);
  const tips = columns.map((column) => ({ x: column.x + column.width / 2, lines: bucketTip(column, buckets ?? []) }));
  return (
    <div ref={element} class="distribution-chart">
      {width > 0 && (
        <MarkChart kind="distribution" label={summary} width={width} height={height} marks={tips}>
          <Grid axis={axis} top={top} width={width} />
          {buckets === null && <Band axis={axis} top={top} mean={mean_us} spread={stddev_us} />}
          <path
            class="bars"
            d={barsPath(
              columns.filter((column) => !column.flagged),
              top + PLOT,
            )}
          />
          <path
            class="bars flagged"
            d={barsPath(
              columns.filter((column) => column.flagged),
              top + PLOT,
            )}
          />
          {limits.map((us) => (
            <line key={us} class="limit" x1={axis.xOf(us)} x2={axis.xOf(us)} y1={top - 4} y2={top + PLOT} />
          ))}
          {labels
            .filter((label) => label.sign !== '')
            .map((label) => (
              <line key={label.text} class={kindOf(label.sign)} x1={label.x} x2={label.x} y1={label.lane * LANE + 13} y2={top + PLOT} />
            ))}
          {labels.map((label) => (
            <MarkLabel key={label.text} {...label} />
          ))}
        </MarkChart>
      )}
    </div>
  );
}

function Grid({ axis, top, width }: { axis: Axis; top: number; width: number }) {
  return (
    <>
      <line class="base" x1={0} x2={width} y1={top + PLOT} y2={top + PLOT} />
      {axis.ticks.map((tick) => (
        <g key={tick.x}>
          <line class="base" x1={tick.x} x2={tick.x} y1={top + PLOT} y2={top + PLOT + 4} />
          {tick.x > 12 && tick.x + (CHARACTER * tick.text.length) / 2 < width - 8 - CHARACTER * axis.unit.length && (
            <text class="tick-text" x={tick.x} y={top + PLOT + 15} text-anchor="middle">
              {tick.text}
            </text>
          )}
        </g>
      ))}
      <text class="tick-text" x={width - 2} y={top + PLOT + 15} text-anchor="end">
        {axis.unit}
      </text>
    </>
  );
}

/** Mean and standard deviation, where only these are kept: the shape of the distribution is not known. */
function Band({ axis, top, mean, spread }: { axis: Axis; top: number; mean: number; spread: number }) {
  const [from, to] = [axis.xOf(Math.max(0.5, mean - spread)), axis.xOf(mean + spread)];
  return (
    <>
      <rect class="band" x={from} y={top + 8} width={Math.max(1, to - from)} height={PLOT - 8} />
      <line class="usual" x1={axis.xOf(mean)} x2={axis.xOf(mean)} y1={top + 8} y2={top + PLOT} />
    </>
  );
}

const kindOf = (sign: string): string => (sign === '▲' || sign === '▼' ? 'call-mark' : sign === '' ? 'limit-mark' : 'usual-mark');

function MarkLabel({ x, lane, anchor, sign, text }: Label & { lane: number; anchor: 'start' | 'end'; sign: string }) {
  const y = lane * LANE + 11;
  const away = sign === '' || sign === '┊' ? 4 : 10;
  return (
    <g class={kindOf(sign)}>
      {sign !== '' && sign !== '┊' && (
        <text x={x} y={y} text-anchor="middle">
          {sign}
        </text>
      )}
      <text x={anchor === 'start' ? x + away : x - away} y={y} text-anchor={anchor}>
        {text}
      </text>
    </g>
  );
}

function barsPath(columns: readonly Column[], foot: number): string {
  return columns
    .map(({ x, width, height }) => `M${x.toFixed(1)} ${foot}v${(-height).toFixed(1)}h${Math.max(1, width - 0.5).toFixed(1)}v${height.toFixed(1)}z`)
    .join('');
}

function bucketTip({ bucket, flagged }: Column, buckets: readonly Bucket[]): string[] {
  return [
    `${duration(bucket.lower_us)} to ${duration(bucket.upper_us)}`,
    `${exact(Math.round(bucket.calls))} calls${flagged ? ', flagged' : ''}`,
    `${percent(shareBelow(bucket.lower_us, buckets))} of all calls are shorter`,
  ];
}

function DistributionTable({ distribution, metric }: { distribution: Distribution; metric: Metric }) {
  const buckets = bucketsOf(distribution);
  if (buckets === null) return <MomentsTable distribution={distribution} metric={metric} />;
  const unit = columnUnit(buckets.map((bucket) => bucket.upper_us));
  return (
    <table>
      <thead>
        <tr>
          <th class="number">from, {unit}</th>
          <th class="number">to, {unit}</th>
          <th class="number">calls</th>
          <th class="number">shorter, %</th>
          <th>flagged</th>
        </tr>
      </thead>
      <tbody>
        {columnsOf(distribution, logAxis([1, 2], 1), 1).map(({ bucket, flagged }) => (
          <tr key={bucket.lower_us}>
            <td class="number">{inUnit(bucket.lower_us, unit)}</td>
            <td class="number">{inUnit(bucket.upper_us, unit)}</td>
            <td class="number">{exact(Math.round(bucket.calls))}</td>
            <td class="number">{percent(shareBelow(bucket.lower_us, buckets)).replace(' %', '')}</td>
            <td>{flagged ? 'flagged' : ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function MomentsTable({ distribution, metric }: { distribution: Distribution; metric: Metric }) {
  const { calls, mean_us, stddev_us, minimum_us, maximum_us } = distribution[metric];
  const unit = columnUnit([maximum_us]);
  const rows: [string, string][] = [
    ['calls', exact(calls)],
    [`mean, ${unit}`, inUnit(mean_us, unit)],
    [`standard deviation, ${unit}`, inUnit(stddev_us, unit)],
    [`shortest, ${unit}`, inUnit(minimum_us, unit)],
    [`longest, ${unit}`, inUnit(maximum_us, unit)],
    ...limitsOf(distribution).map((us): [string, string] => [`flagged beyond, ${unit}`, inUnit(us, unit)]),
  ];
  return (
    <table>
      <thead>
        <tr>
          <th>of the runtimes</th>
          <th class="number">value</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name}>
            <td>{name}</td>
            <td class="number">{value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Percentile of a call among all, such as `p99.998`. */
export function percentileText(us: number, distribution: Distribution): string {
  const share = shareBelow(us, bucketsOf(distribution) ?? []);
  return share === null ? '' : percentile(share, callsIn(distribution, 'exclusive'));
}
