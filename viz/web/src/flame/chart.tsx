import { useEffect, useMemo, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import { paintFlame, type Look } from './flamepainter';
import { boxAt, boxOf, layOut, neighbour, ROW, type Box } from './model/flamelayout';
import { indexOfFrame, type Frame, type Matches } from './model/frames';
import { prepare } from '../shared/charts/canvas';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { isSettling } from '../shared/session/settling';
import { theme } from '../shared/session/theme';

const ARROWS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'];

interface Props {
  label: string;
  frames: readonly Frame[];
  /** Index of the frame that fills the width. */
  zoomed: number;
  /** Frames that the search found; null without a search. */
  matches: Matches | null;
  zoomTo: (index: number) => void;
  /** Lines of a box's tooltip. */
  lines: (box: Box) => string[];
  look: (index: number) => Look;
}

/** Flame graph: one canvas for any number of frames; a click zooms to a frame. */
export function Chart({ label, frames: all, zoomed: at, matches, zoomTo, lines: linesOf, look }: Props) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, scroll] = useMemo(() => [signal<Box | null>(null), signal(0)] as const, []);
  const layout = useMemo(() => layOut(all, at, width), [all, at, width]);
  const pointedId = useRef('');
  // Indices change with each answer: the focused frame is found again by its id, if it still exists.
  useEffect(() => {
    const index = indexOfFrame(all, pointedId.current);
    if (pointed.value !== null) pointed.value = pointed.value.merged > 0 ? null : boxOf(layout, index, all[index]?.depth ?? 0);
  }, [layout]);
  const pointAt = (box: Box | null): void => {
    pointed.value = box;
    pointedId.current = all[box?.index ?? 0]?.id ?? '';
  };
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      if (canvas.current === null || width === 0) return;
      const context = prepare(canvas.current, width, height);
      paintFlame(context, {
        frames: all,
        layout,
        zoomed: at,
        width,
        height,
        scroll: scroll.value,
        matches,
        look,
        pointed: pointed.value,
        theme: theme.value,
      });
      if (!isSettling.value) performance.mark('first-useful-paint');
    });
    return () => cancelAnimationFrame(frame);
  }, [all, layout, width, height, scroll.value, matches, look, pointed.value, theme.value, isSettling.value]);

  const under = (event: MouseEvent): Box | null => {
    const { x, y } = positionIn(event);
    return boxAt(layout, x, y + scroll.value);
  };
  const hover = (event: PointerEvent): void => {
    const box = under(event);
    pointAt(box);
    (event.currentTarget as HTMLElement).style.cursor = box === null ? 'default' : 'pointer';
    if (box === null) hideTip();
    else showTip({ x: event.clientX, y: event.clientY, lines: linesOf(box) });
  };
  const zoomInto = (box: Box | null): void => {
    if (box === null) return;
    hideTip();
    zoomTo(box.index);
  };
  const keys = (event: KeyboardEvent): void => {
    const from = pointed.value ?? boxOf(layout, at, all[at]?.depth ?? 0);
    const act = actionOf(event.key, from);
    if (act === null) return;
    event.preventDefault();
    event.stopPropagation();
    act(event.currentTarget as HTMLElement);
  };
  const actionOf = (key: string, from: Box | null): ((host: HTMLElement) => void) | null => {
    if (ARROWS.includes(key)) return (host) => point(from && (neighbour(layout, all, from, key) ?? from), host);
    if (key === 'Enter' || key === '+') return () => zoomInto(from);
    if (key === 'Backspace' || key === '-') return () => zoomTo(Math.max(0, all[at]?.parent ?? 0));
    if (key === '0' || key === 'Home') return () => zoomTo(0);
    return null;
  };
  const point = (box: Box | null, host: HTMLElement): void => {
    if (box === null) return;
    pointAt(box);
    const lines = linesOf(box);
    spoken.value = lines.join(', ');
    const top = box.depth * ROW;
    if (top < host.scrollTop) host.scrollTop = top;
    else if (top + ROW > host.scrollTop + host.clientHeight) host.scrollTop = top + ROW - host.clientHeight;
    showTip({ ...onPage(host, box.x + Math.min(box.width / 2, 200), top - host.scrollTop + ROW), lines }, 0);
  };

  return (
    <div
      ref={element}
      class="chart flame-chart"
      tabIndex={0}
      role="application"
      aria-roledescription="flame graph"
      aria-label={label}
      data-pointed={pointed.value === null ? '' : (all[pointed.value.index]?.name ?? '')}
      onPointerMove={hover}
      onPointerLeave={() => {
        hideTip();
        pointAt(null);
      }}
      onClick={(event) => zoomInto(under(event))}
      onKeyDown={keys}
      onScroll={(event) => (scroll.value = event.currentTarget.scrollTop)}
      onBlur={hideTip}
    >
      <canvas ref={canvas} aria-hidden="true" />
      <div style={{ height: `${Math.max(1, layout.height - height)}px` }} />
    </div>
  );
}
