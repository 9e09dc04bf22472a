import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { prepare } from '../../shared/charts/canvas';
import { paintScatter } from './steppainter';
import { ranked } from '../../shared/names/answer';
import { layout, nearest, type Gap, type Layout, type Point, type Series } from './model/steplayout';
import { shorten } from '../../shared/names/names';
import { duration, exact, plural, wallClock } from '../../shared/units/units';
import { formatRange, type Range } from '../../shared/address/model/ranges';
import { go, view } from '../../shared/address/address';
import { measureName } from '../measurechoice';
import { published, worstCall } from '../overview';
import { hideTip, hoveredRank, showTip, spoken, tip } from '../../shared/session/page';
import { programs } from '../../shared/session/session';
import { theme } from '../../shared/session/theme';
import { useDetail } from '../../shared/parts/detail';
import { onPage, positionIn } from '../../shared/charts/pointer';
import { useSize } from '../../shared/charts/size';
import { DRAG_PX, pan, stepsBetween, zoomKey, zoomWheel } from './moves';
import { analysed } from './steptable';
import type { CallSummary, RankKey } from '../../shared/api/types';

interface Focus {
  rank: RankKey;
  step: number;
}

interface Props {
  series: readonly Series[];
  zoom: Range | null;
}

/** Chart of steps. Hovering shows a tooltip, a click lists the step's calls, dragging selects steps, Shift-drag pans, Ctrl-wheel zooms. Keys do the same. */
export function StepChart({ series, zoom }: Props) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const { measure } = view.value;
  const drawn = useMemo(() => layout(series, measure, zoom, width, height, published.value), [series, measure, zoom, width, height, published.value]);
  const [focus, setFocus] = useState<Focus | null>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const held = useRef<{ x: number; range: Range } | null>(null);
  const detail = useDetail(focus && `${focus.rank} ${focus.step}`, (signal) => worstCall((focus as Focus).rank, (focus as Focus).step, signal));
  const point = focus && (drawn.points.find((one) => one.series.rank === focus.rank && one.row[0] === focus.step) ?? null);
  const brush = drag && Math.abs(drag.to - drag.from) >= DRAG_PX ? stepsBetween(drawn, drag.from, drag.to) : null;

  useEffect(() => {
    if (!canvas.current || width === 0 || height === 0) return;
    const emphasis = { rank: hoveredRank.value, point, steps: view.value.steps, brush };
    paintScatter(prepare(canvas.current, width, height), drawn, emphasis, theme.value);
  }, [drawn, theme.value, hoveredRank.value, point, view.value.steps, brush?.[0], brush?.[1]]);

  // Before the next event: later, the tooltip could describe a point that the pointer has left.
  useLayoutEffect(() => {
    if (point !== null && detail !== null && drag === null) explain(point, detail, tip.value === null ? undefined : 0);
  }, [detail]);

  const explain = (found: Point, worst: CallSummary | null, delay?: number): void => {
    if (element.current) showTip({ ...onPage(element.current, found.x, found.y), lines: tipOf(found, worst) }, delay);
  };
  const show = (found: Point | null, delay?: number): void => {
    setFocus(found && { rank: found.series.rank, step: found.row[0] });
    hoveredRank.value = found?.series.rank ?? null;
    if (found) explain(found, point !== null && found.row === point.row ? detail : null, delay);
    else hideTip();
  };
  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    if (held.current) return pan(drawn, held.current, x);
    if (drag) return setDrag({ ...drag, to: x });
    const found = nearest(drawn.points, x, y);
    const gap = found ? undefined : drawn.gaps.find((one) => x >= one.x0 && x <= one.x1 && Math.abs(y - one.y) <= 4);
    if (!gap) return show(found);
    setFocus(null);
    hoveredRank.value = gap.series.rank;
    showTip({ x: event.clientX, y: event.clientY, lines: gapTip(gap) });
  };
  const release = (event: PointerEvent): void => {
    held.current = null;
    if (brush) go({ steps: brush, cursor: null });
    else if (drag) {
      const { x, y } = positionIn(event);
      open(nearest(drawn.points, x, y));
    }
    setDrag(null);
  };
  const move = (event: KeyboardEvent): void => {
    const next = neighbour(drawn, point, event.key);
    if (next) {
      show(next, 0);
      spoken.value = tipOf(next, null).slice(0, 2).join(', ');
    } else if (event.key === 'Enter') open(point);
    else if (event.key === 'Escape' && (drag || focus)) {
      setDrag(null);
      show(null);
    } else if (!zoomKey(event.key, drawn.range, point?.row[0] ?? Math.floor((drawn.range[0] + drawn.range[1]) / 2))) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={element}
      class="chart"
      tabIndex={0}
      role="application"
      aria-roledescription="scatter chart"
      aria-label={`${measureName(measure)} per step`}
      data-points={drawn.points.length}
      data-published={drawn.marks.map((mark) => mark.id).join(' ')}
      onPointerMove={hover}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        const { x } = positionIn(event);
        if (event.shiftKey) held.current = { x, range: drawn.range };
        else setDrag({ from: x, to: x });
        hideTip();
      }}
      onPointerUp={release}
      onPointerCancel={() => (held.current = null)}
      onPointerLeave={() => !drag && show(null)}
      onDblClick={() => go({ zoom: null, newest: 0, steps: null, cursor: null })}
      onWheel={(event) => zoomWheel(event, drawn)}
      onKeyDown={move}
      onBlur={() => show(null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
    </div>
  );
}

/** Open the calls of a mark. */
function open(point: Point | null): void {
  if (point) go({ page: 'calls', rank: point.series.rank, steps: [point.row[0], point.row[0]], call: null, cursor: null });
}

/** Mark that an arrow key leads to: the next step of the rank, or the nearest step of another rank. */
function neighbour(drawn: Layout, from: Point | null, key: string): Point | null {
  const way = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[key];
  if (way === undefined) return null;
  if (from === null) return drawn.points.find((point) => point.row[4] > 0) ?? drawn.points[0] ?? null;
  if (key === 'ArrowRight' || key === 'ArrowLeft') {
    const own = drawn.points.filter((point) => point.series === from.series);
    return own[own.indexOf(from) + way] ?? from;
  }
  const all = [...new Set(drawn.points.map((point) => point.series))];
  const other = all[all.indexOf(from.series) + way];
  const own = drawn.points.filter((point) => point.series === other);
  return own.reduce<Point>((best, one) => (Math.abs(one.x - from.x) < Math.abs(best.x - from.x) ? one : best), own[0] ?? from);
}

function tipOf(point: Point, worst: CallSummary | null): string[] {
  const [step, start, end, calls, anomalies, lost] = point.row;
  return [
    `${ranked(point.series.rank, programs.value)}: ${plural(anomalies, 'anomaly')}`,
    `step ${exact(step)}`,
    `analysed ${analysed(point.row)}`,
    `${wallClock(start)}, ${duration(end - start)} long`,
    `${exact(calls)} calls, ${duration(lost)} lost`,
    ...(worst === null ? [] : [`worst: ${shorten(worst.function, 40).text}, ${duration(worst.severity_us)}`]),
    'click: its calls',
  ];
}

function gapTip(gap: Gap): string[] {
  return [`${ranked(gap.series.rank, programs.value)}: steps ${formatRange(gap.steps)} not analysed`, 'their number of anomalies is unknown'];
}
