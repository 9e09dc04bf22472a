import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { AXIS_KINDS } from '../shared/address/model/axes';
import { callAt, callLines, idAt, indexOf } from './model/callpoints';
import { boxAround, boxAside, isShown, layoutCalls, nearestCall, neighbourCall, rangesOf, type Box, type CallLayout, type Direction } from './model/calllayout';
import { exact } from '../shared/units/units';
import { prepare } from '../shared/charts/canvas';
import { paintCalls, paintRings } from './callpainter';
import { go, view } from '../shared/address/address';
import { hoveredCall, open, wording } from './calls';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { theme } from '../shared/session/theme';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import type { Points } from '../shared/api/types';

const ARROWS: readonly string[] = ['ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowDown'] satisfies Direction[];

/** Least length of a drag; anything shorter is a click. */
const DRAG_PX = 4;
const NEARER = 0.7;
export const WHOLE = { xRange: null, yRange: null };

interface Props {
  points: Points;
  label: string;
}

/**
 * Chart of calls. Hovering shows a tooltip, a click selects a call, and a click on the selected call opens its
 * timeline; dragging and Ctrl-wheel zoom. Keys do the same.
 */
export function CallChart({ points, label }: Props) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const marks = useRef<HTMLCanvasElement>(null);
  const rings = useRef<HTMLCanvasElement>(null);
  const { x, y, xScale, yScale, xRange, yRange, call } = view.value;
  const [drag, setDrag] = useState<Box | null>(null);
  const layout = useMemo(
    () => layoutCalls(points, { x, y, xScale, yScale, xRange, yRange }, width, height, wording.value),
    [points, x, y, xScale, yScale, xRange?.[0], xRange?.[1], yRange?.[0], yRange?.[1], width, height, wording.value],
  );
  const chosen = useMemo(() => (call === null ? -1 : indexOf(points, call)), [points, call]);
  const brush = drag !== null && Math.hypot(drag.x1 - drag.x0, drag.y1 - drag.y0) >= DRAG_PX ? brushed(layout, drag) : null;
  const pointed = hoveredCall.value === null ? -1 : indexOf(points, hoveredCall.value);

  useEffect(() => {
    if (marks.current && width > 0 && height > 0) paintCalls(prepare(marks.current, width, height), layout, AXIS_KINDS[y].kind === 'names', theme.value);
  }, [layout, theme.value]);
  useEffect(() => {
    if (rings.current && width > 0 && height > 0) paintRings(prepare(rings.current, width, height), layout, { chosen, pointed, brush }, theme.value);
  }, [layout, theme.value, chosen, pointed, drag]);

  const place = (event: MouseEvent): readonly [x: number, y: number] => {
    const { x, y } = positionIn(event);
    return [x, y];
  };
  const zoom = (box: Box): void => go(rangesOf(layout, box), 'replace');
  const show = (found: number, delay?: number): void => {
    hoveredCall.value = found < 0 ? null : idAt(points, found);
    if (!isShown(layout, found) || !element.current) return hideTip();
    showTip({ ...onPage(element.current, layout.x[found] as number, layout.y[found] as number), lines: linesOf(points, found) }, delay);
  };
  const choose = (found: number): void => {
    open(idAt(points, found));
    if (view.value.page === 'calls') show(found, 0);
  };
  const move = (event: KeyboardEvent): void => {
    if (ARROWS.includes(event.key)) {
      const from = isShown(layout, pointed) ? pointed : chosen;
      const next = !isShown(layout, from) ? (layout.drawn[layout.drawn.length - 1] ?? -1) : neighbourCall(layout, from, event.key as Direction);
      show(next, 0);
      if (next >= 0) spoken.value = linesOf(points, next).slice(0, 4).join(', ');
    } else if (event.key === 'Enter' && pointed >= 0) choose(pointed);
    else if (event.key === 'Escape' && (drag !== null || pointed >= 0)) {
      setDrag(null);
      show(-1);
    } else if (!zoomByKey(event.key, layout, pointed, zoom)) return;
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
      aria-label={label}
      data-drawn={layout.drawn.length}
      data-covered={layout.covered}
      data-pointed={hoveredCall.value ?? undefined}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        const [x0, y0] = place(event);
        setDrag({ x0, y0, x1: x0, y1: y0 });
      }}
      onPointerMove={(event) => {
        const [x1, y1] = place(event);
        if (drag === null) return show(nearestCall(layout, x1, y1));
        setDrag({ ...drag, x1, y1 });
        hideTip();
      }}
      onPointerUp={(event) => {
        const found = nearestCall(layout, ...place(event));
        if (brush !== null) go(rangesOf(layout, brush));
        else if (drag !== null && found >= 0) choose(found);
        setDrag(null);
      }}
      onPointerLeave={() => drag === null && show(-1)}
      onDblClick={(event) => nearestCall(layout, ...place(event)) < 0 && go(WHOLE)}
      onWheel={(event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        zoom(boxAround(layout, ...place(event), event.deltaY < 0 ? NEARER : 1 / NEARER));
      }}
      onKeyDown={move}
      onBlur={() => show(-1)}
    >
      <canvas ref={marks} aria-hidden="true" />
      <canvas ref={rings} aria-hidden="true" />
      <span class="thinned unit">{thinned(points, layout)}</span>
    </div>
  );
}

/** The selected rectangle, which spans the whole chart along an axis of names. */
function brushed({ left, right, top, base, xAxis, yAxis }: CallLayout, drag: Box): Box {
  const across = xAxis.valueAt === null ? { x0: left, x1: right } : { x0: drag.x0, x1: drag.x1 };
  const up = yAxis.valueAt === null ? { y0: top, y1: base } : { y0: drag.y0, y1: drag.y1 };
  return { ...across, ...up };
}

/** Zoom or pan by a key, around the focused call or the middle; return whether the key does that. */
function zoomByKey(key: string, layout: CallLayout, pointed: number, zoom: (box: Box) => void): boolean {
  const middle = [(layout.left + layout.right) / 2, (layout.top + layout.base) / 2] as const;
  const [x, y] = isShown(layout, pointed) ? [layout.x[pointed] as number, layout.y[pointed] as number] : middle;
  const nearer = (): void => zoom(boxAround(layout, x, y, NEARER));
  const farther = (): void => zoom(boxAround(layout, x, y, 1 / NEARER));
  const acts: Record<string, () => void> = {
    w: nearer,
    '+': nearer,
    s: farther,
    '-': farther,
    a: () => zoom(boxAside(layout, -0.3)),
    d: () => zoom(boxAside(layout, 0.3)),
    '0': () => go(WHOLE, 'replace'),
  };
  const act = acts[key.toLowerCase()];
  act?.();
  return act !== undefined;
}

function linesOf(points: Points, at: number): string[] {
  const call = callAt(points, at);
  return [...callLines(call, wording.value), view.value.call === call.id ? 'click: its timeline' : 'click: select'];
}

/** Number of calls that are not drawn, and why. */
function thinned({ columns, anomalies, normal_calls }: Points, { covered, outside }: CallLayout): string {
  const shown = columns.is_anomaly.filter(Boolean).length;
  const normal = columns.rank.length - shown;
  const parts = [
    shown < anomalies && `the ${exact(shown)} worst of ${exact(anomalies)} anomalies`,
    normal < normal_calls && `${exact(normal)} of ${exact(normal_calls)} normal calls`,
    outside > 0 && `${exact(outside)} outside the picture`,
    covered > 0 && `${exact(covered)} normal calls hidden behind others`,
  ];
  return parts.filter((part) => part !== false).join(', ');
}
