import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hideTip, showTip, spoken } from '../session/page';
import { onPage, positionIn } from './pointer';

interface Props {
  /** Kind of chart, for screen readers. */
  kind: string;
  label: string;
  width: number;
  height: number;
  /** Lines of the tooltip of each row, from top to bottom. */
  rows: readonly (readonly string[])[];
  row_px: number;
  /** SVG elements. */
  children: ComponentChildren;
}

/** Chart with rows below each other: the pointer and arrow keys move between them. */
export function RowChart({ kind, label, width, height, rows, row_px, children }: Props) {
  const [focused, setFocused] = useState<number | null>(null);
  const show = (at: number | null, host: HTMLElement, x: number, delay?: number): void => {
    const lines = at === null ? undefined : rows[at];
    setFocused(lines === undefined ? null : at);
    if (at === null || lines === undefined) return hideTip();
    showTip({ ...onPage(host, x, (at + 1) * row_px), lines }, delay);
  };
  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    show(Math.floor(y / row_px), event.currentTarget as HTMLElement, x);
  };
  const move = (event: KeyboardEvent): void => {
    const next = { ArrowDown: (focused ?? -1) + 1, ArrowUp: (focused ?? rows.length) - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (next === undefined || rows.length === 0) return;
    const at = Math.min(rows.length - 1, Math.max(0, next));
    show(at, event.currentTarget as HTMLElement, width / 3, 0);
    spoken.value = (rows[at] ?? []).join(', ');
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="mark-chart"
      tabIndex={0}
      role="application"
      aria-roledescription={kind}
      aria-label={label}
      onPointerMove={hover}
      onPointerLeave={(event) => show(null, event.currentTarget, 0)}
      onBlur={(event) => show(null, event.currentTarget, 0)}
      onKeyDown={move}
    >
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
        {focused !== null && <rect class="row-focus" x={0} width={width} y={focused * row_px} height={row_px} />}
        {children}
      </svg>
    </div>
  );
}
