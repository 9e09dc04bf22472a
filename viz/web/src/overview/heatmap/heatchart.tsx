import { batch } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { prepare } from '../../shared/charts/canvas';
import { paintHeatFocus, paintHeatMap, type Box } from './heatpainter';
import { ranked } from '../../shared/names/answer';
import { lostOfCode } from './model/bins';
import { layerOf, MOST, UNKNOWN, type Grid } from './model/grid';
import {
  allPlaces,
  areaOf,
  boxOf,
  cellAt,
  cellOf,
  cellSize,
  heatLayout,
  nearestCell,
  placesOf,
  rankRangeAt,
  ranksAt,
  startOf,
  stepAtX,
  stepsOf,
  valuesOf,
  type Cell,
  type HeatLayout,
} from './model/heatlayout';
import { shorten } from '../../shared/names/names';
import { zoomed } from '../steps/model/steplayout';
import { duration, exact, plural } from '../../shared/units/units';
import { formatRange, type Range } from '../../shared/address/model/view';
import { shareOf } from './model/window';
import { go, view } from '../../shared/address/address';
import { tickText, timeText } from '../../shared/session/clock';
import { bins, end, moveRanks, moveSteps, room, showRanks, showSteps, stepsMissed, worstOf, type Worst } from './grid';
import { slots } from '../steps/histories';
import { getSteps } from '../steps/requests';
import { worstCall } from '../overview';
import { hideTip, hoveredRank, say, showTip, spoken, tip } from '../../shared/session/page';
import { programs, zero_us } from '../../shared/session/session';
import { wallTimes } from '../../shared/session/settings';
import { theme } from '../../shared/session/theme';
import { useDetail } from '../../shared/parts/detail';
import { onPage, placeIn } from '../../shared/charts/pointer';
import { useSize } from '../../shared/charts/size';
import { choose } from '../choose';
import { measureName } from '../measurechoice';
import { HeatLegend, spansText } from './heatmap';

/** A drag shorter than this is a click; one that is as thin in one direction means all there. */
const DRAG_PX = 8;
const ZOOM = 0.7;

/** Which cell is pointed at: by rank and step, for cells change while the run goes on. */
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

/** What was under the pointer when a pan began. */
interface Held {
  x: number;
  y: number;
  steps: Range;
  places: Range | null;
}

interface Found extends Worst {
  /** By all abnormal calls of the rank in the step; null where that is not known. */
  step_lost_us: number | null;
  function: string | null;
  /** By the call that lost most. */
  lost_us: number;
}

/** The picture: hover explains, click selects the worst rank, drag zooms, with Shift pans, Ctrl-wheel zooms, keys do the same. */
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
  // Before the next event: later it would speak of a cell that has been left meanwhile.
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
    const { x, y } = placeIn(event);
    if (held.current) panFrom(held.current, layout, x, y);
    else if (drag) setDrag({ ...drag, x1: x, y1: y });
    else show(cellAt(layout, x, y));
  };
  const release = (event: PointerEvent): void => {
    held.current = null;
    if (!drag) return;
    setDrag(null);
    const area = draggedArea(layout, drag);
    const { x, y } = placeIn(event);
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
    } else if (event.key === 'Escape' && (drag || focus || anchor)) {
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
    const { x, y } = placeIn(event);
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
          const { x, y } = placeIn(event);
          if (event.shiftKey) held.current = { x, y, steps: shown(layout), places: allPlaces(grid) };
          else setDrag({ x0: x, y0: y, x1: x, y1: y });
          hideTip();
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
      <HeatLegend size={cellSize(layout)} bins={bins.value} toCome={after > end.value} />
    </div>
  );
}

const focusOn = (layout: HeatLayout, { row, column }: Cell): Focus => ({
  place: placesOf(layout, row, row)[0],
  step: Math.max(stepsOf(layout, column)[0], layout.steps[0]),
});

/** First and last step shown of those that there are. */
const shown = ({ steps }: HeatLayout): Range => [steps[0], Math.max(steps[0], Math.min(steps[1], end.value) - 1)];

const keyOf = (layout: HeatLayout, { row, column }: Cell): string =>
  `${view.value.measure} ${placesOf(layout, row, row).join()} ${stepsOf(layout, column).join()} ${Object.values(valuesOf(layout, { row, column })).join()}`;

function isCounted(layout: HeatLayout, cell: Cell): boolean {
  const { count } = valuesOf(layout, cell);
  return count !== 0 && count !== UNKNOWN;
}

/** The worst rank and step of a cell, and what it lost time in. */
async function ask(layout: HeatLayout, { row, column }: Cell, signal: AbortSignal): Promise<Found | null> {
  const worst = await worstOf(placesOf(layout, row, row), stepsOf(layout, column), signal);
  if (worst === null) return null;
  const [call, step_lost_us] = await Promise.all([worstCall(worst.rank, worst.step, signal), lostIn(worst, signal)]);
  return { ...worst, step_lost_us, function: call && shorten(call.function, 40).text, lost_us: call?.severity_us ?? 0 };
}

/** What a rank lost in a step; null where nobody knows any more. */
async function lostIn({ rank, step }: Worst, signal: AbortSignal): Promise<number | null> {
  const rows = (await getSteps([rank], signal, [step, step])).get(rank);
  return rows?.[0]?.[5] ?? null;
}

/** Select the worst rank of a cell, say which that is, and list the cell's calls, unless something else is wanted meanwhile. */
async function select(layout: HeatLayout, { row, column }: Cell, isWanted: () => boolean): Promise<void> {
  const steps = stepsOf(layout, column);
  try {
    const worst = await worstOf(placesOf(layout, row, row), steps, AbortSignal.timeout(10_000));
    if (!isWanted()) return;
    if (worst === null) return say('No rank of this cell was analysed in these steps.');
    const lost_us = worst.count === 0 ? 0 : await lostIn(worst, AbortSignal.timeout(10_000));
    if (!isWanted()) return;
    choose(worst.rank, { rank: rankRangeAt(layout, row), steps, cursor: null });
    const name = ranked(worst.rank, programs.value);
    say(
      worst.count === 0
        ? `${name} is selected; no rank had anomalies here.`
        : `${name} had ${anomalies(worst.count)} in step ${exact(worst.step)}${lost_us === null ? '' : `, which lost ${duration(lost_us)}`}: ${
            view.value.measure === 'lost' ? 'most time' : 'most'
          } of this cell.`,
    );
  } catch {
    say('The server did not say which rank is the worst here: try again.');
  }
}

const anomalies = (count: number): string => plural(count, 'anomaly') + (count === MOST ? ' or more' : '');

function tipOf(layout: HeatLayout, cell: Cell, found: Found | null): string[] {
  const { count, lost } = valuesOf(layout, cell);
  const places = placesOf(layout, cell.row, cell.row);
  const steps = stepsOf(layout, cell.column);
  const start = startOf(layout, cell.column);
  const silent = layout.grid.silent.filter(({ place }) => place >= places[0] && place <= places[1]);
  const counted = `at most ${anomalies(count)} of one rank in one step`;
  const lostTime = `at most about ${duration(Number(lostOfCode(lost).toPrecision(2)))} lost by one rank in one step`;
  const both = view.value.measure === 'lost' ? [lostTime, counted] : [counted, lostTime];
  const what = count === UNKNOWN ? ['not analysed: unknown'] : count === 0 ? ['no anomalies'] : both;
  const worst = found
    ? [
        `most: ${ranked(found.rank, programs.value)}, step ${exact(found.step)}${found.step_lost_us === null ? '' : `: ${duration(found.step_lost_us)} lost by ${anomalies(found.count)}`}`,
        ...(found.function === null ? [] : [`the worst call in ${found.function}: ${duration(found.lost_us)} lost`]),
      ]
    : [];
  return [
    `${places[0] === places[1] ? 'rank' : 'ranks'} ${spansText(ranksAt(layout.grid, places))}`,
    `${steps[0] === steps[1] ? 'step' : 'steps'} ${formatRange(steps)}`,
    ...what,
    ...worst,
    ...(start > 0 ? [`from ${timeText(start)}`] : []),
    ...(silent.length > 0 ? [`${plural(silent.length, 'silent rank')}`] : []),
    count === UNKNOWN ? 'drag: zoom' : 'click: select the worst rank, list the calls · drag: zoom',
  ];
}

/** Zoom to some ranks and steps; where these are all, all. */
function zoomTo({ ranks, steps }: { ranks: Range | null; steps: Range | null }): void {
  batch(() => {
    if (ranks !== null) showRanks(ranks, 'push');
    if (steps !== null) showSteps(steps, ranks === null ? 'push' : 'replace');
  });
}

/** What was dragged over; null where that was a click. */
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

/** The cell that an arrow key leads to. */
function neighbour(layout: HeatLayout, from: Cell | null, key: string): Cell | null {
  const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[key];
  if (way === undefined || layout.bands.length === 0) return null;
  if (from === null) return worstCell(layout);
  const [down, right] = way as [number, number];
  const row = Math.min(layout.bands.length - 1, Math.max(0, from.row + down));
  const column = Math.min(layout.columns - 1, Math.max(0, from.column + right));
  return { row, column };
}

/** Where the keyboard begins. */
function worstCell(layout: HeatLayout): Cell {
  const [cells, { columns }] = [layerOf(layout, view.value.measure), layout];
  let most = 0;
  cells.forEach((value, at) => {
    if (value !== UNKNOWN && (cells[most] === UNKNOWN || value > (cells[most] as number))) most = at;
  });
  return { row: Math.floor(most / columns), column: most % columns };
}

/** Keys that zoom and pan, with Shift along the ranks; says whether it was one. */
function zoomKey({ key, shiftKey }: KeyboardEvent, layout: HeatLayout, cell: Cell | null): boolean {
  const range = shown(layout);
  const step = cell ? stepsOf(layout, cell.column)[0] : Math.floor((range[0] + range[1]) / 2);
  const centre = cell ?? { row: Math.floor(layout.bands.length / 2), column: 0 };
  const steps: Record<string, () => void> = {
    w: () => showSteps(zoomed(range, step, ZOOM)),
    s: () => showSteps(zoomed(range, step, 1 / ZOOM)),
    a: () => moveSteps(range, shareOf(range, -0.3)),
    d: () => moveSteps(range, shareOf(range, 0.3)),
    f: () => showSteps(view.value.steps ?? range),
    '0': () => go({ ranks: null, zoom: null, newest: 0 }),
  };
  const ranks: Record<string, () => void> = {
    w: () => zoomRanks(layout, centre, ZOOM),
    s: () => zoomRanks(layout, centre, 1 / ZOOM),
    a: () => panRanks(layout, -0.3),
    d: () => panRanks(layout, 0.3),
  };
  const name = { '+': 'w', '-': 's' }[key] ?? key.toLowerCase();
  const act = (shiftKey && key !== '+' ? ranks : steps)[name];
  act?.();
  return act !== undefined;
}

function zoomRanks(layout: HeatLayout, { row }: Cell, factor: number): void {
  const all = allPlaces(layout.grid);
  if (all !== null) showRanks(zoomed(all, placesOf(layout, row, row)[0], factor));
}

function panRanks(layout: HeatLayout, share: number): void {
  const all = allPlaces(layout.grid);
  if (all !== null) moveRanks(all, shareOf(all, share));
}

/** Ranks and steps stay under the pointer. */
function panFrom({ x: x0, y: y0, steps, places }: Held, layout: HeatLayout, x: number, y: number): void {
  const columns = Math.round(((x0 - x) / (layout.right - layout.left)) * (steps[1] - steps[0] + 1));
  batch(() => {
    moveSteps(steps, columns);
    if (places === null) return;
    const rows = Math.round(((y0 - y) / (layout.bottom - layout.top)) * (places[1] - places[0] + 1));
    moveRanks(places, rows);
  });
}
