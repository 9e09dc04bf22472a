import { useRef, useState } from 'preact/hooks';
import { intervalText, pathsOf, unknownPath, type Lane, type NodeChart } from './model/nodechart';
import { moved, zoomed } from './model/zoom';
import { shorten } from '../shared/names/names';
import { columnUnit, duration, inUnit, sinceStart } from '../shared/units/units';
import { go } from '../shared/address/address';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import { roundTicks } from '../shared/charts/model/ticks';
import { TRIANGLE } from '../shared/charts/model/tokens';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { zero_us } from '../shared/session/session';
import { marks, show, whole } from './node';
import type { CallSummary } from '../shared/api/types';

const MARKS_PX = 18;
const LANE_PX = 26;
const BAR_PX = 20;
const NAME_PX = 132;
const AXIS_PX = 20;
const NEAR_PX = 6;
const LEAST_DRAG_PX = 4;

interface Props {
  chart: NodeChart;
  lanes: readonly Lane[];
  times: readonly [begin_us: number, end_us: number];
}

/** Stacked bars over time, with abnormal calls above them. Arrow keys move from call to call, Enter opens one; W, S, A, D, 0 and dragging zoom. */
export function LaneChart({ chart, lanes, times }: Props) {
  const { element, width } = useSize<HTMLDivElement>();
  const [at, setAt] = useState<number | null>(null);
  const [brush, setBrush] = useState<readonly [number, number] | null>(null);
  const dragged = useRef(false);
  const calls = [...(marks.value.value?.calls ?? [])].sort((a, b) => a.entry_us - b.entry_us);
  const wide = Math.max(1, width - NAME_PX - 4);
  const foot = MARKS_PX + lanes.length * LANE_PX;
  const xOf = (time_us: number): number => NAME_PX + Math.min(1, Math.max(0, (time_us - times[0]) / (times[1] - times[0]))) * wide;
  const timeOf = (x: number): number => times[0] + ((x - NAME_PX) / wide) * (times[1] - times[0]);
  const unit = columnUnit([times[0] - zero_us.value, times[1] - zero_us.value]);

  const point = (next: number | null, host: HTMLElement, delay?: number): void => {
    setAt(next);
    const call = next === null ? undefined : calls[next];
    if (call === undefined) return hideTip();
    showTip({ ...onPage(host, xOf(call.entry_us), MARKS_PX), lines: wordsOf(call) }, delay);
  };
  const nearest = (x: number): number | null => {
    let [best, distance] = [-1, NEAR_PX];
    calls.forEach((call, number) => {
      const away = Math.max(xOf(call.entry_us) - x, x - xOf(call.exit_us), 0);
      if (away < distance) [best, distance] = [number, away];
    });
    return best < 0 ? null : best;
  };
  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    if (brush !== null) {
      dragged.current = dragged.current || Math.abs(x - brush[0]) >= LEAST_DRAG_PX;
      return setBrush([brush[0], Math.max(NAME_PX, x)]);
    }
    if (y < MARKS_PX) return point(nearest(x), event.currentTarget as HTMLElement);
    setAt(null);
    const lane = lanes[Math.floor((y - MARKS_PX) / LANE_PX)];
    if (lane === undefined) return hideTip();
    const columns = lane.shares[0]?.length ?? 1;
    const column = Math.min(columns - 1, Math.floor(((x - NAME_PX) / wide) * columns));
    const lines = column < 0 ? [lane.title] : [lane.title, intervalText(chart, lane, column), `at ${sinceStart(timeOf(x) - zero_us.value)}`];
    showTip({ x: event.clientX, y: event.clientY, lines });
  };
  const drop = (): void => {
    if (brush !== null && dragged.current) {
      const [from, to] = brush[0] < brush[1] ? brush : [brush[1], brush[0]];
      show([Math.round(timeOf(from)), Math.round(timeOf(Math.min(to, width)))]);
    }
    setBrush(null);
  };
  const open = (number: number | null): void => {
    const call = number === null ? undefined : calls[number];
    if (call !== undefined) go({ page: 'call', call: call.id });
  };
  const move = (event: KeyboardEvent): void => {
    const next = { ArrowRight: (at ?? -1) + 1, ArrowLeft: (at ?? calls.length) - 1, Home: 0, End: calls.length - 1 }[event.key];
    if (event.key === 'Enter') open(at);
    else if (next !== undefined && calls.length > 0) {
      const number = Math.min(calls.length - 1, Math.max(0, next));
      point(number, event.currentTarget as HTMLElement, 0);
      spoken.value = wordsOf(calls[number] as CallSummary).join(', ');
    } else if (!turn(event.key, times)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const leave = (): void => {
    hideTip();
    setAt(null);
  };
  const focused = at === null ? undefined : calls[at];
  return (
    <div
      ref={element}
      class="lane-chart"
      tabIndex={0}
      role="application"
      aria-roledescription="stacked bars over time"
      aria-label={`${chart.title} over time: ${lanes.length} lanes, ${calls.length} abnormal calls marked`}
      data-lanes={lanes.length}
      data-marks={calls.length}
      onPointerDown={(event) => {
        const { x } = positionIn(event);
        dragged.current = false;
        if (event.button === 0 && x >= NAME_PX) setBrush([x, x]);
      }}
      onPointerMove={hover}
      onPointerUp={drop}
      onPointerLeave={() => (leave(), setBrush(null))}
      onBlur={leave}
      onDblClick={() => show(null)}
      onClick={() => !dragged.current && open(at)}
      onKeyDown={move}
    >
      {width > 0 && (
        <svg width={width} height={foot + AXIS_PX} aria-hidden="true">
          <defs>
            <pattern id={`not-${chart.name}`} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <line x1="0" x2="0" y1="0" y2="6" class="not-sampled" />
            </pattern>
          </defs>
          <text class="beside-name" x={0} y={13}>
            abnormal calls
          </text>
          {calls.map((call) => (
            <path key={call.id} d={TRIANGLE} class="anomaly-fill" transform={`translate(${xOf(call.entry_us).toFixed(1)} 9) scale(5)`} />
          ))}
          {lanes.map((lane, row) => (
            <g key={lane.key} transform={`translate(0 ${MARKS_PX + row * LANE_PX})`}>
              <text class="beside-name" x={0} y={LANE_PX - 9}>
                {lane.name.length > 18 ? `${lane.name.slice(0, 17)}…` : lane.name}
              </text>
              <g transform={`translate(${NAME_PX} ${LANE_PX - BAR_PX - 2})`}>
                <path d={unknownPath(lane, wide, BAR_PX)} fill={`url(#not-${chart.name})`} />
                {pathsOf(lane, wide, BAR_PX).map((path, band) => (
                  <path key={band} class={`beside-bar ${chart.bands[band]?.colour}`} d={path} />
                ))}
              </g>
              {calls
                .filter((call) => lane.ran?.(call))
                .map((call) => (
                  <rect
                    key={call.id}
                    class="lane-call"
                    x={xOf(call.entry_us)}
                    width={Math.max(1.5, xOf(call.exit_us) - xOf(call.entry_us))}
                    y={LANE_PX - BAR_PX - 3}
                    height={BAR_PX + 2}
                  />
                ))}
              <line class="axis" x1={NAME_PX} x2={NAME_PX + wide} y1={LANE_PX - 2} y2={LANE_PX - 2} />
            </g>
          ))}
          {roundTicks(times[0] - zero_us.value, times[1] - zero_us.value, Math.max(2, Math.floor(wide / 110))).map((time) => (
            <text
              key={time}
              class="tick-text"
              x={xOf(zero_us.value + time)}
              y={foot + 15}
              text-anchor={xOf(zero_us.value + time) > width - 24 ? 'end' : 'middle'}
            >
              {inUnit(time, unit)}
              {unit === 'clock' ? '' : ` ${unit}`}
            </text>
          ))}
          {focused && <line class="focus-line" x1={xOf(focused.entry_us)} x2={xOf(focused.entry_us)} y1={0} y2={foot} />}
          {brush && <rect class="lane-brush" x={Math.min(...brush)} width={Math.abs(brush[1] - brush[0])} y={0} height={foot} />}
        </svg>
      )}
    </div>
  );
}

/** Zoom or pan by a key, as in all charts over time; return whether the key does that. */
function turn(key: string, times: Props['times']): boolean {
  const all = whole.value;
  if (all === null) return false;
  const next = {
    w: () => zoomed(times, all, 0.5),
    '+': () => zoomed(times, all, 0.5),
    s: () => zoomed(times, all, 2),
    '-': () => zoomed(times, all, 2),
    a: () => moved(times, all, -0.25),
    d: () => moved(times, all, 0.25),
    0: () => null,
  }[key.toLowerCase()];
  if (next !== undefined) show(next());
  return next !== undefined;
}

function wordsOf(call: CallSummary): string[] {
  return [
    shorten(call.function, 60).text,
    `${duration(call.severity_us)} lost of ${duration(call.inclusive_us)}`,
    `rank ${call.program}:${call.rank}, thread ${call.thread}, step ${call.step}`,
    `from ${sinceStart(call.entry_us - zero_us.value)}`,
    'click: everything kept about it',
  ];
}
