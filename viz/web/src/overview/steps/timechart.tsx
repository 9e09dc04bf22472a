import { useMemo, useRef, useState } from 'preact/hooks';
import { PARTS } from '../model/budgetparts';
import { barAt, timeLayout, totalOf, type Bar, type Happened, type TimeLayout } from './model/timelayout';
import { shorten } from '../../shared/names/names';
import { duration, exact, percent, plural, wallClock } from '../../shared/units/units';
import { formatRange, type Range } from '../../shared/address/model/ranges';
import { go, view } from '../../shared/address/address';
import { hideTip, showTip, spoken } from '../../shared/session/page';
import { onPage, positionIn } from '../../shared/charts/pointer';
import { useSize } from '../../shared/charts/size';
import type { StepTimes } from '../../shared/api/types';
import { xOf } from './model/steplayout';
import { DRAG_PX, pan, stepsBetween, zoomKey, zoomWheel } from './moves';
import { analysed } from './steptable';

/** Half the width, and the height, of the strip in which marks of incidents take a click. */
const REACH_PX = 7;
const STRIP_PX = 16;
/** Events that a tooltip names. */
const NAMED = 2;

interface Props {
  times: StepTimes;
  zoom: Range | null;
  happened: readonly Happened[];
}

interface Drag {
  from: number;
  to: number;
  /** Steps that were shown when a drag with Shift began, which pans; null for one that chooses steps. */
  range: Range | null;
}

/**
 * Time of threads over steps. Hovering says what it went into, a click chooses a step for all panels, dragging several, a
 * click on a mark opens its incident; Shift-drag pans, Ctrl-wheel zooms. Keys do the same.
 */
export function TimeChart({ times, zoom, happened }: Props) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const drawn = useMemo(() => timeLayout(times, zoom, width, height, happened), [times, zoom, width, height, happened]);
  const [at, setAt] = useState<number | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const held = useRef<Drag | null>(null);
  const brush = drag !== null && drag.range === null && Math.abs(drag.to - drag.from) >= DRAG_PX ? stepsBetween(drawn, drag.from, drag.to) : null;
  const bar = at === null ? undefined : drawn.bars[at];

  const show = (next: number | null, delay?: number): void => {
    setAt(next);
    const found = next === null ? undefined : drawn.bars[next];
    if (found === undefined || element.current === null) return hideTip();
    const lines = tipOf(found, drawn);
    showTip({ ...onPage(element.current, (found.x0 + found.x1) / 2, drawn.top), lines }, delay);
    if (delay === 0) spoken.value = lines.slice(0, 2).join(', ');
  };
  const take = (next: Drag | null): void => {
    held.current = next;
    setDrag(next);
  };
  const hover = (event: PointerEvent): void => {
    const { x } = positionIn(event);
    const now = held.current;
    if (now === null) return show(barAt(drawn.bars, x));
    if (now.range !== null) pan(drawn, { x: now.from, range: now.range }, x);
    else take({ ...now, to: x });
  };
  const release = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    const now = held.current;
    take(null);
    if (now === null || now.range !== null) return;
    if (Math.abs(x - now.from) >= DRAG_PX) return choose(stepsBetween(drawn, now.from, x));
    const mark = y <= STRIP_PX ? drawn.marks.find((one) => Math.abs(one.x - x) <= REACH_PX) : undefined;
    const first = mark?.at[0];
    if (first !== undefined) return go({ page: 'incident', incident: first.id, call: null });
    const found = drawn.bars[barAt(drawn.bars, x) ?? -1];
    if (found) choose(found.steps);
  };
  const move = (event: KeyboardEvent): void => {
    const last = drawn.bars.length - 1;
    const next = { ArrowRight: (at ?? -1) + 1, ArrowLeft: (at ?? last + 1) - 1, Home: 0, End: last }[event.key];
    if (next !== undefined && last >= 0) show(Math.min(last, Math.max(0, next)), 0);
    else if (event.key === 'Enter' && bar) choose(bar.steps);
    else if (event.key === 'Escape' && (drag !== null || at !== null)) {
      take(null);
      show(null);
    } else if (!zoomKey(event.key, drawn.range, bar?.steps[0] ?? Math.floor((drawn.range[0] + drawn.range[1]) / 2))) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={element}
      class="chart"
      tabIndex={0}
      role="application"
      aria-roledescription="stacked chart"
      aria-label="Time of threads per step"
      data-bars={drawn.bars.length}
      data-marks={drawn.marks.flatMap((mark) => mark.at.map((one) => one.id)).join(' ')}
      onPointerMove={hover}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        const { x } = positionIn(event);
        take({ from: x, to: x, range: event.shiftKey ? drawn.range : null });
        hideTip();
      }}
      onPointerUp={release}
      onPointerCancel={() => take(null)}
      onPointerLeave={() => held.current === null && show(null)}
      onDblClick={() => go({ zoom: null, newest: 0, steps: null, cursor: null })}
      onWheel={(event) => zoomWheel(event, drawn)}
      onKeyDown={move}
      onBlur={() => show(null)}
    >
      {width > 0 && height > 0 && <Picture drawn={drawn} focused={bar} chosen={brush ?? view.value.steps} />}
    </div>
  );
}

/** Choose steps: lists of calls and incidents show those. */
const choose = (steps: Range): void => go({ steps, cursor: null });

function Picture({ drawn, focused, chosen }: { drawn: TimeLayout; focused: Bar | undefined; chosen: Range | null }) {
  const { width, height, left, right, top, base } = drawn;
  const half = (xOf(drawn, 1) - xOf(drawn, 0)) / 2;
  const [x0, x1] = chosen === null ? [0, 0] : [Math.max(left, xOf(drawn, chosen[0]) - half), Math.min(right, xOf(drawn, chosen[1]) + half)];
  return (
    <svg class="time-chart" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <defs>
        <pattern id="time-gap" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect class="gap-ground" width="5" height="5" />
          <line class="gap-line" x1="0" x2="0" y1="0" y2="5" />
        </pattern>
      </defs>
      {drawn.yTicks.map(({ y, text }) => (
        <g key={text}>
          <line class="axis" x1={left} x2={right} y1={Math.round(y) + 0.5} y2={Math.round(y) + 0.5} />
          <text class="tick-text" x={left - 6} y={y + 4} text-anchor="end">
            {text}
          </text>
        </g>
      ))}
      <text class="tick-text" x={left - 6} y={10} text-anchor="end">
        {drawn.unit}
      </text>
      {drawn.xTicks.map(({ x, text }) => (
        <text key={text} class="tick-text" x={x} y={height - 4} text-anchor="middle">
          {text}
        </text>
      ))}
      {drawn.areas.map(({ look, path }) => (
        <path key={look} class={`time-area ${look}`} d={path} />
      ))}
      {drawn.gaps.map((gap) => (
        <rect key={gap.steps[0]} x={gap.x0} width={Math.max(1, gap.x1 - gap.x0)} y={top} height={base - top} fill="url(#time-gap)" />
      ))}
      {x1 > x0 && <rect class="time-chosen" x={x0} width={Math.max(2, x1 - x0)} y={top} height={base - top} />}
      {focused && <rect class="time-focus" x={focused.x0} width={Math.max(1, focused.x1 - focused.x0)} y={top} height={base - top} />}
      {drawn.marks.map((mark) => (
        <g key={mark.x} class="time-mark">
          <line x1={mark.x} x2={mark.x} y1={top - 4} y2={base} />
          <path d={`M${mark.x} ${top - 13}l5 5l-5 5l-5 -5Z`} />
        </g>
      ))}
    </svg>
  );
}

function tipOf({ time, steps, count }: Bar, drawn: TimeLayout): string[] {
  const total = totalOf(time);
  const begun = drawn.marks.flatMap((mark) => mark.at).filter((one) => one.time_us >= time.start_us && one.time_us <= time.end_us);
  return [
    steps[0] === steps[1] ? `step ${exact(steps[0])}` : `steps ${formatRange(steps)}, per step`,
    ...PARTS.flatMap(({ names, of }) =>
      of(time) > 0 ? [`${names[time.is_sampled ? 0 : 1]}: ${duration(of(time) / count)}, ${percent(total > 0 ? of(time) / total : null)}`] : [],
    ),
    `${duration(total / count)} of all threads`,
    time.anomalies === 0 ? 'no anomalies' : `${plural(time.anomalies, 'anomaly')}, ${duration(time.severity_us)} lost`,
    `analysed ${analysed([steps[0], time.start_us, time.end_us, 0, 0, 0, 0])}, ${wallClock(time.start_us)}`,
    ...begun.slice(0, NAMED).map((one) => `◆ ${shorten(one.text, 70).text}`),
    ...(begun.length > NAMED ? [`◆ and ${exact(begun.length - NAMED)} more`] : []),
  ];
}
