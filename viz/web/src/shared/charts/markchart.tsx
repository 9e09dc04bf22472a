import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hideTip, showTip, spoken } from '../session/page';
import { onPage, positionIn } from './pointer';

export interface ChartMark {
  x: number;
  lines: readonly string[];
}

interface Props {
  /** Kind of chart, for screen readers. */
  kind: string;
  label: string;
  width: number;
  height: number;
  /** Marks in the order of x. */
  marks: readonly ChartMark[];
  open?: (at: number) => void;
  /** SVG elements. */
  children: ComponentChildren;
}

/** Chart with marks beside each other: the pointer and arrow keys move between them, a click and Enter open one. */
export function MarkChart({ kind, label, width, height, marks, open, children }: Props) {
  const [focused, setFocused] = useState<number | null>(null);
  const mark = focused === null ? undefined : marks[focused];
  const show = (at: number | null, host: HTMLElement, delay?: number): void => {
    setFocused(at);
    const next = at === null ? undefined : marks[at];
    if (next === undefined) return hideTip();
    showTip({ ...onPage(host, next.x, height / 3), lines: next.lines }, delay);
  };
  const hover = (event: PointerEvent): void => show(nearest(marks, positionIn(event).x), event.currentTarget as HTMLElement);
  const move = (event: KeyboardEvent): void => {
    const host = event.currentTarget as HTMLElement;
    const next = { ArrowRight: (focused ?? -1) + 1, ArrowLeft: (focused ?? marks.length) - 1, Home: 0, End: marks.length - 1 }[event.key];
    if (event.key === 'Enter' && focused !== null) open?.(focused);
    else if (next !== undefined && marks.length > 0) {
      const at = Math.min(marks.length - 1, Math.max(0, next));
      show(at, host, 0);
      spoken.value = (marks[at]?.lines ?? []).join(', ');
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class={open ? 'mark-chart opens' : 'mark-chart'}
      tabIndex={0}
      role="application"
      aria-roledescription={kind}
      aria-label={label}
      onPointerMove={hover}
      onPointerLeave={(event) => show(null, event.currentTarget)}
      onBlur={(event) => show(null, event.currentTarget)}
      onKeyDown={move}
      onClick={() => focused !== null && open?.(focused)}
    >
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
        {children}
        {mark && <line class="focus-line" x1={mark.x} x2={mark.x} y1={0} y2={height} />}
      </svg>
    </div>
  );
}

function nearest(marks: readonly ChartMark[], x: number): number | null {
  let [best, distance] = [-1, Infinity];
  marks.forEach((mark, at) => {
    if (Math.abs(mark.x - x) < distance) [best, distance] = [at, Math.abs(mark.x - x)];
  });
  return best < 0 ? null : best;
}
