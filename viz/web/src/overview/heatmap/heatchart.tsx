import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { prepare } from '../../shared/charts/canvas';
import { paintHeatFocus, paintHeatMap, type Box } from './heatpainter';
import { ask, isCounted, keyOf, rowLines, select, tipOf, type Found } from './heatcells';
import { neighbour, panFrom, shown, ZOOM, zoomKey, zoomRanks, zoomTo, type Held } from './heatmoves';
import {
  allPlaces,
  areaOf,
  boxOf,
  cellAt,
  cellOf,
  cellSize,
  heatLayout,
  labelAt,
  nearestCell,
  placesOf,
  ranksAt,
  stepAtX,
  stepsOf,
  type Cell,
  type HeatLayout,
} from './model/heatlayout';
import { zoomed } from '../steps/model/steplayout';
import { go, view } from '../../shared/address/address';
import { tickText } from '../../shared/session/clock';
import { bins, end, openRow, room, showSteps, stepsMissed } from './grid';
import { slots } from '../steps/histories';
import { hideTip, hoveredRank, showTip, spoken, tip } from '../../shared/session/page';
import { zero_us } from '../../shared/session/session';
import { wallTimes } from '../../shared/session/settings';
import { theme } from '../../shared/session/theme';
import { useDetail } from '../../shared/parts/detail';
import { onPage, positionIn } from '../../shared/charts/pointer';
import { useSize } from '../../shared/charts/size';
import { measureName } from '../measurechoice';
import { HeatLegend } from './heatlegend';
import type { Range } from '../../shared/address/model/ranges';
import type { Grid } from './model/grid';

/** Least length of a drag: a shorter one is a click, and a drag that is this thin in one direction selects everything along it. */
const DRAG_PX = 8;

/** Focused cell, by rank and step, because cells change during the run. */
interface Focus {
  place: number;
  step: number;
}

interface Drag {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** Heat map. Hovering shows a tooltip, a click selects the worst rank, dragging and Ctrl-wheel zoom, Shift-drag pans. Keys do the same. */
export function HeatChart({ grid }: { grid: Grid }) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const cells = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const [first, after] = room.value;
  const layout = useMemo(() => heatLayout(grid, [first, after], width, height, tickText), [grid, first, after, width, height, zero_us.value, wallTimes.value]);
  const [focus, setFocus] = useState<Focus | null>(null);
  const [anchor, setAnchor] = useState<Focus | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const held = useRef<Held | null>(null);
  const isHovered = useRef(false);
  const turn = useRef(0);
  const cell = focus && cellOf(layout, focus.place, focus.step);
  const corner = anchor && cellOf(layout, anchor.place, anchor.step);
  const found = useDetail(cell && isCounted(layout, cell) ? keyOf(layout, cell) : null, (signal) => ask(layout, cell as Cell, signal));

  useEffect(() => {
    if (!cells.current || width === 0 || height === 0) return;
    const rank = isHovered.current ? null : hoveredRank.value;
    paintHeatMap(
      prepare(cells.current, width, height),
      layout,
      { measure: view.value.measure, bins: bins.value, slots: slots.value, rank, end: end.value, stale: stepsMissed.value },
      theme.value,
    );
  }, [layout, view.value.measure, bins.value, theme.value, slots.value, hoveredRank.value, end.value, stepsMissed.value]);
  useEffect(() => {
    if (!above.current || width === 0 || height === 0) return;
    const brush = drag ? brushed(layout, drag) : cell && corner ? boxAround(layout, corner, cell) : null;
    paintHeatFocus(prepare(above.current, width, height), cell && boxOf(layout, cell), brush, theme.value);
  }, [layout, theme.value, cell?.row, cell?.column, corner?.row, corner?.column, drag]);
  // Before the next event: later, the tooltip could describe a cell that the pointer has left.
  useLayoutEffect(() => {
    if (cell && found && !drag) explain(cell, found, tip.value === null ? undefined : 0);
  }, [found]);

  const explain = (one: Cell, worst: Found | null, delay?: number): void => {
    if (!element.current) return;
    const [x, y, w, h] = boxOf(layout, one);
    showTip({ ...onPage(element.current, x + w, y + h), lines: tipOf(layout, one, worst) }, delay);
  };
  const show = (one: Cell | null, delay?: number): void => {
    isHovered.current = one !== null;
    const ranks = one && ranksAt(grid, placesOf(layout, one.row, one.row));
    hoveredRank.value = ranks?.length === 1 && ranks[0] && ranks[0].first === ranks[0].last ? `${ranks[0].program}:${ranks[0].first}` : null;
    setFocus(one && focusOn(layout, one));
    if (one) explain(one, cell && keyOf(layout, cell) === keyOf(layout, one) ? found : null, delay);
    else hideTip();
  };
  const selectCell = (one: Cell): void => {
    const own = ++turn.current;
    void select(layout, one, () => turn.current === own);
  };
  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    if (held.current) panFrom(held.current, layout, x, y);
    else if (drag) setDrag({ ...drag, x1: x, y1: y });
    else {
      const label = labelAt(layout, x, y);
      (event.currentTarget as HTMLElement).style.cursor = label === null ? '' : 'pointer';
      show(label === null ? cellAt(layout, x, y) : null);
      if (label !== null) showTip({ x: event.clientX, y: event.clientY, lines: rowLines(layout, label) });
    }
  };
  const release = (event: PointerEvent): void => {
    held.current = null;
    if (!drag) return;
    setDrag(null);
    const area = draggedArea(layout, drag);
    const { x, y } = positionIn(event);
    const clicked = cellAt(layout, x, y);
    if (area !== null) zoomTo(area);
    else if (clicked) selectCell(clicked);
  };
  const move = (event: KeyboardEvent): void => {
    const next = neighbour(layout, cell, event.key);
    if (next) {
      setAnchor(event.shiftKey ? (anchor ?? (cell ? focus : focusOn(layout, next))) : null);
      show(next, 0);
      spoken.value = tipOf(layout, next, null).slice(0, 3).join(', ');
    } else if (event.key === 'Enter' && cell) {
      if (corner) zoomTo(areaOf(layout, corner, cell));
      else selectCell(cell);
      setAnchor(null);
    } else if (event.key.toLowerCase() === 'o' && cell) openRow(placesOf(layout, cell.row, cell.row));
    else if (event.key === 'Escape' && (drag || focus || anchor)) {
      setDrag(null);
      setAnchor(null);
      show(null);
    } else if (!zoomKey(event, layout, cell)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const wheel = (event: WheelEvent): void => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { x, y } = positionIn(event);
    const factor = event.deltaY < 0 ? ZOOM : 1 / ZOOM;
    if (event.shiftKey) zoomRanks(layout, nearestCell(layout, x, y), factor);
    else showSteps(zoomed(shown(layout), stepAtX(layout, x), factor));
  };
  return (
    <div class="heat">
      <div
        ref={element}
        class="chart"
        tabIndex={0}
        role="application"
        aria-roledescription="heat map"
        aria-label={`${measureName(view.value.measure)} of all ranks by step`}
        data-rows={layout.bands.length}
        data-columns={layout.columns}
        onPointerMove={hover}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          const { x, y } = positionIn(event);
          hideTip();
          const label = labelAt(layout, x, y);
          if (label !== null) return openRow(placesOf(layout, label, label));
          if (event.shiftKey) held.current = { x, y, steps: shown(layout), places: allPlaces(grid) };
          else setDrag({ x0: x, y0: y, x1: x, y1: y });
        }}
        onPointerUp={release}
        onPointerCancel={() => (held.current = null)}
        onPointerLeave={() => !drag && show(null)}
        onDblClick={() => {
          turn.current++;
          go({ ranks: null, zoom: null, newest: 0, rank: null, steps: null });
        }}
        onWheel={wheel}
        onKeyDown={move}
        onBlur={() => {
          setAnchor(null);
          show(null);
        }}
      >
        <canvas ref={cells} aria-hidden="true" />
        <canvas ref={above} aria-hidden="true" />
      </div>
      <HeatLegend grid={grid} size={cellSize(layout)} bins={bins.value} toCome={after > end.value} />
    </div>
  );
}

const focusOn = (layout: HeatLayout, { row, column }: Cell): Focus => ({
  place: placesOf(layout, row, row)[0],
  step: Math.max(stepsOf(layout, column)[0], layout.steps[0]),
});

/** Ranks and steps of a drag; null for a click. */
function draggedArea(layout: HeatLayout, { x0, y0, x1, y1 }: Drag): { ranks: Range | null; steps: Range | null } | null {
  const [isWide, isHigh] = [Math.abs(x1 - x0) >= DRAG_PX, Math.abs(y1 - y0) >= DRAG_PX];
  if (!isWide && !isHigh) return null;
  const area = areaOf(layout, nearestCell(layout, x0, y0), nearestCell(layout, x1, y1));
  return { ranks: isHigh ? area.ranks : null, steps: isWide ? area.steps : null };
}

function brushed(layout: HeatLayout, drag: Drag): Box | null {
  const area = draggedArea(layout, drag);
  if (area === null) return null;
  const [one, other] = [nearestCell(layout, drag.x0, drag.y0), nearestCell(layout, drag.x1, drag.y1)];
  const [x, y, width, height] = boxAround(layout, one, other);
  return [
    area.steps ? x : layout.left,
    area.ranks ? y : layout.top,
    area.steps ? width : layout.right - layout.left,
    area.ranks ? height : layout.bottom - layout.top,
  ];
}

function boxAround(layout: HeatLayout, one: Cell, other: Cell): Box {
  const boxes = [boxOf(layout, one), boxOf(layout, other)];
  const [x, y] = [Math.min(...boxes.map((box) => box[0])), Math.min(...boxes.map((box) => box[1]))];
  return [x, y, Math.max(...boxes.map((box) => box[0] + box[2])) - x, Math.max(...boxes.map((box) => box[1] + box[3])) - y];
}
