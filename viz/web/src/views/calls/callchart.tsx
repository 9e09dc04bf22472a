import { useEffect, useMemo, useRef } from 'preact/hooks';
import { AXIS_KINDS } from '../../lib/axes';
import { callAt, callLines, idAt, placeOf } from '../../lib/callpoints';
import { layoutCalls, nearestCall, neighbourCall, type Direction } from '../../lib/callscatter';
import type { Points } from '../../lib/types';
import { exact } from '../../lib/units';
import { prepare } from '../../draw/canvas';
import { paintCalls, paintRings } from '../../draw/callscatter';
import { view } from '../../state/address';
import { hoveredCall, open, telling } from '../../state/calls';
import { hideTip, showTip, spoken } from '../../state/page';
import { theme } from '../../state/theme';
import { useSize } from '../parts/size';

const ARROWS: readonly string[] = ['ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowDown'] satisfies Direction[];

interface Props {
  points: Points;
  label: string;
}

/** The chart: hover tells, click selects, a click on the selected call opens its timeline, keys do the same. */
export function CallChart({ points, label }: Props) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const marks = useRef<HTMLCanvasElement>(null);
  const rings = useRef<HTMLCanvasElement>(null);
  const { x, y, xScale, yScale, call } = view.value;
  const layout = useMemo(
    () => layoutCalls(points, { x, y, xScale, yScale }, width, height, telling.value),
    [points, x, y, xScale, yScale, width, height, telling.value],
  );
  const chosen = useMemo(() => (call === null ? -1 : placeOf(points, call)), [points, call]);
  const pointed = hoveredCall.value === null ? -1 : placeOf(points, hoveredCall.value);

  useEffect(() => {
    if (marks.current && width > 0 && height > 0) paintCalls(prepare(marks.current, width, height), layout, AXIS_KINDS[y].kind === 'names', theme.value);
  }, [layout, theme.value]);
  useEffect(() => {
    if (rings.current && width > 0 && height > 0) paintRings(prepare(rings.current, width, height), layout, chosen, pointed, theme.value);
  }, [layout, theme.value, chosen, pointed]);

  const at = (event: MouseEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return nearestCall(layout, event.clientX - box.left, event.clientY - box.top);
  };
  const show = (found: number, delay?: number): void => {
    hoveredCall.value = found < 0 ? null : idAt(points, found);
    if (found < 0 || !element.current) return hideTip();
    const box = element.current.getBoundingClientRect();
    showTip({ x: box.left + (layout.x[found] as number), y: box.top + (layout.y[found] as number), lines: linesOf(points, found) }, delay);
  };
  const choose = (found: number): void => {
    open(idAt(points, found));
    if (view.value.page === 'calls') show(found, 0);
  };
  const move = (event: KeyboardEvent): void => {
    if (ARROWS.includes(event.key)) {
      const from = pointed >= 0 ? pointed : chosen;
      const next = from < 0 ? (layout.drawn[layout.drawn.length - 1] ?? -1) : neighbourCall(layout, from, event.key as Direction);
      show(next, 0);
      if (next >= 0) spoken.value = linesOf(points, next).slice(0, 4).join(', ');
    } else if (event.key === 'Enter' && pointed >= 0) choose(pointed);
    else if (event.key === 'Escape' && pointed >= 0) show(-1);
    else return;
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
      onPointerMove={(event) => show(at(event))}
      onPointerLeave={() => show(-1)}
      onClick={(event) => {
        const found = at(event);
        if (found >= 0) choose(found);
      }}
      onKeyDown={move}
      onBlur={() => show(-1)}
    >
      <canvas ref={marks} aria-hidden="true" />
      <canvas ref={rings} aria-hidden="true" />
      <span class="thinned unit">{thinned(points, layout.covered)}</span>
    </div>
  );
}

function linesOf(points: Points, at: number): string[] {
  const call = callAt(points, at);
  return [...callLines(call, telling.value), view.value.call === call.id ? 'click: its timeline' : 'click: select'];
}

/** What is not drawn of what there is. */
function thinned({ columns, anomalies, normal_calls }: Points, covered: number): string {
  const shown = columns.is_anomaly.filter(Boolean).length;
  const normal = columns.rank.length - shown;
  const parts = [
    shown < anomalies && `the ${exact(shown)} worst of ${exact(anomalies)} anomalies`,
    normal < normal_calls && `${exact(normal)} of ${exact(normal_calls)} normal calls`,
    covered > 0 && `${exact(covered)} normal calls lie under others`,
  ];
  return parts.filter((part) => part !== false).join(', ');
}
