import { momentsOf, pathOf, rangeOf, timeTicks, valueAt, type Curve } from './model/curves';
import { MarkChart, type ChartMark } from './markchart';
import { useSize } from './size';
import { digits, sinceStart, wallClock } from '../units/units';

const LEFT = 52;
const RIGHT = 18;
const TOP = 8;
const PLOT = 150;
const AXIS = 20;
const MOST_MOMENTS = 300;
/** Most curves that a tooltip names. */
const MOST_NAMED = 8;

interface Props {
  label: string;
  curves: readonly Curve[];
  /** Zero of the times. */
  zero_us: number;
  /** A moment to be marked, and its description. */
  moment?: { time_us: number; text: string };
}

/** Curves over time in one plot; marked curves stand out, and the tooltip names them first. */
export function CurveChart({ label, curves, zero_us, moment }: Props) {
  const { element, width } = useSize<HTMLDivElement>();
  const times = momentsOf(curves, MOST_MOMENTS);
  const [first, last] = [times[0] ?? 0, times[times.length - 1] ?? 1];
  const [least, most] = rangeOf(curves);
  const x = (time_us: number): number => LEFT + ((time_us - first) / Math.max(1, last - first)) * (width - LEFT - RIGHT);
  const y = (value: number): number => TOP + PLOT * (1 - (value - least) / (most - least));
  const marks = times.map((time_us): ChartMark => ({ x: x(time_us), lines: tip(curves, time_us, zero_us) }));
  const foot = TOP + PLOT;
  return (
    <div ref={element} class="curve-chart">
      {width > 0 && (
        <MarkChart kind="line chart" label={label} width={width} height={foot + AXIS} marks={marks}>
          {[least, most].map((value) => (
            <g key={value}>
              <line class="base faint" x1={LEFT} x2={width} y1={y(value)} y2={y(value)} />
              <text class="tick-text" x={LEFT - 4} y={y(value) + 4} text-anchor="end">
                {short(value)}
              </text>
            </g>
          ))}
          {timeTicks(first - zero_us, last - zero_us, Math.max(2, Math.floor(width / 90))).map(({ at_us, text }) => (
            <text key={at_us} class="tick-text" x={x(at_us + zero_us)} y={foot + 15} text-anchor="middle">
              {text}
            </text>
          ))}
          {moment && moment.time_us >= first && moment.time_us <= last && (
            <line class="limit" x1={x(moment.time_us)} x2={x(moment.time_us)} y1={TOP} y2={foot}>
              <title>{moment.text}</title>
            </line>
          )}
          {[...curves].sort(byMark).map((curve) => (
            <path key={curve.name} class={curve.isMarked ? 'curve marked' : 'curve'} d={pathOf(curve, x, y)} data-curve={curve.name} />
          ))}
        </MarkChart>
      )}
    </div>
  );
}

const byMark = (one: Curve, other: Curve): number => Number(one.isMarked ?? false) - Number(other.isMarked ?? false);

/** Format a number of any size so that it fits beside an axis. */
export function short(value: number): string {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e5 || size < 1e-3) ? value.toExponential(2) : digits(value);
}

function tip(curves: readonly Curve[], time_us: number, zero_us: number): string[] {
  const known = curves.map((curve) => ({ curve, value: valueAt(curve, time_us) })).filter(({ value }) => value !== undefined);
  known.sort((one, other) => byMark(other.curve, one.curve));
  const named = known.slice(0, MOST_NAMED).map(({ curve, value }) => `${curve.name}: ${value == null ? 'not a number' : short(value)}`);
  const more = known.length > MOST_NAMED ? [`and ${known.length - MOST_NAMED} more`] : [];
  return [...named, ...more, `${sinceStart(time_us - zero_us)} (${wallClock(time_us)})`];
}
