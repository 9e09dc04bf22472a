/** Painter of the window of a call. */

import { shorten } from '../shared/names/names';
import type { Bar, Timeline } from './model/callwindow';
import { GROUP_FILLS, pick, type Group, type Theme } from '../shared/charts/model/tokens';
import { colour, drawTriangle, FONT, hatch } from '../shared/charts/canvas';

export const ROW = 20;
export const AXIS = 18;

/** Times that the picture shows; `start` is at its left edge. */
export interface Scale {
  start: number;
  usPerPixel: number;
}

export interface Tick {
  time: number;
  text: string;
}

export interface BarBox {
  bar: Bar;
  x: number;
  y: number;
  width: number;
}

/** Return the boxes of the bars that are in the picture. */
export function boxes(timeline: Timeline, scale: Scale, width: number): BarBox[] {
  const row = new Map(timeline.depths.map((depth, index) => [depth, index]));
  return timeline.bars.flatMap((bar) => {
    const x0 = Math.max(0, (bar.start - scale.start) / scale.usPerPixel);
    const x1 = bar.open ? width : Math.min(width, (bar.end - scale.start) / scale.usPerPixel);
    if (x1 < 0 || x0 > width) return [];
    return [{ bar, x: x0, y: (row.get(bar.depth) as number) * ROW, width: Math.max(2, x1 - x0) }];
  });
}

export function paintTimeline(
  context: CanvasRenderingContext2D,
  timeline: Timeline,
  scale: Scale,
  ticks: readonly Tick[],
  width: number,
  theme: Theme,
  focused: Bar | null,
): void {
  const height = timeline.depths.length * ROW;
  const xOf = (time: number): number => (time - scale.start) / scale.usPerPixel;
  hatch(context, 'not kept', 0, 0, Math.min(width, xOf(timeline.knownStart)), height, theme);
  hatch(context, 'not kept', xOf(timeline.knownEnd), 0, width - xOf(timeline.knownEnd), height, theme);
  paintTicks(
    context,
    ticks.map((tick) => ({ x: xOf(tick.time), text: tick.text })),
    height,
    width,
    theme,
  );
  const shown = boxes(timeline, scale, width);
  // The abnormal call is painted last, so that nothing covers its outline.
  for (const anomaly of [false, true]) {
    for (const box of shown) if (box.bar.isAnomaly === anomaly) paintBar(context, box, box.bar === focused, theme);
  }
}

function paintBar(context: CanvasRenderingContext2D, box: BarBox, focused: boolean, theme: Theme): void {
  const { bar, x, y, width } = box;
  const [top, height] = [y + 1.5, ROW - 3];
  context.fillStyle = pick(GROUP_FILLS[bar.group], theme);
  context.fillRect(x, top, width, height);
  underline(context, bar.group, x, top + height - 2.5, width, theme);
  context.lineWidth = bar.isAnomaly || focused ? 2 : 1;
  context.strokeStyle = colour(focused ? 'accent' : bar.isAnomaly ? 'anomaly' : 'edge', theme);
  context.strokeRect(x + 0.5, top, Math.max(1, width - 1), height);
  let left = x + 4;
  if (bar.isAnomaly) {
    drawTriangle(context, x + Math.min(9, width / 2 + 1), y + ROW / 2, 10, colour('anomaly', theme));
    left += 13;
  }
  const wide = x + width - left - 2;
  const room = Math.floor(wide / (bar.isAnomaly ? 7.2 : 6.4));
  const text = room < 3 ? '' : shorten(bar.function, room).text;
  if (text === '' || text.length > room) return;
  context.font = `${bar.isAnomaly ? '600 ' : ''}11px ${FONT}`;
  context.fillStyle = colour('text', theme);
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  // A text of wide letters is compressed to the width.
  context.fillText(text, left, y + ROW / 2, wide);
}

/** Underline that shows the group of a function without colour. */
export function underline(context: CanvasRenderingContext2D, group: Group, x: number, y: number, width: number, theme: Theme): void {
  const pattern: Record<Group, { dash: number[]; lines: number; thick: number } | null> = {
    app: null,
    mpi: { dash: [], lines: 2, thick: 1 },
    io: { dash: [5, 3], lines: 1, thick: 1 },
    gpu: { dash: [1, 2], lines: 1, thick: 1 },
    runtime: { dash: [], lines: 1, thick: 1 },
    other: { dash: [], lines: 1, thick: 2 },
  };
  const style = pattern[group];
  if (style === null || width < 4) return;
  context.save();
  context.strokeStyle = colour('edge', theme);
  context.lineWidth = style.thick;
  context.setLineDash(style.dash);
  for (let at = 0; at < style.lines; at++) {
    context.beginPath();
    // On whole pixels: otherwise two lines become one grey band.
    const middle = Math.round(y - 2 * at) + (style.thick % 2) / 2;
    context.moveTo(x + 1, middle);
    context.lineTo(x + width - 1, middle);
    context.stroke();
  }
  context.restore();
}

function paintTicks(context: CanvasRenderingContext2D, ticks: { x: number; text: string }[], height: number, width: number, theme: Theme): void {
  context.font = `11px ${FONT}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.lineWidth = 1;
  for (const { x, text } of ticks) {
    context.strokeStyle = colour('border', theme);
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, 0);
    context.lineTo(Math.round(x) + 0.5, height);
    context.stroke();
    if (x < 12 || x > width - 12) continue;
    context.fillStyle = colour('tick', theme);
    context.fillText(text, x, height + AXIS / 2);
  }
}
