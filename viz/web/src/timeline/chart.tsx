import { useEffect, useMemo, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import { prepare } from '../shared/charts/canvas';
import { AXIS, GUTTER, isMain, paintScene, RIBBON, type Brush, type Emphasis, type Picture } from './timelinepainter';
import { bandAt, bandLines } from './model/bands';
import { idOf, MERGED } from './model/spans';
import { moved, zoomed } from './model/timelineaxis';
import { linesIn } from './model/selection';
import {
  across,
  arrowAt,
  arrowsOf,
  beside,
  firstSpot,
  ribbonOf,
  ROW,
  spotAt,
  spotOf,
  tellingArrows,
  type Arrow,
  type RibbonMark,
  type Spot,
} from './model/lines';
import { LABEL, publishedLines, publishedOf, type PublishedFinding, type PublishedMark } from './model/published';
import { arrowLines, ribbonLines, spotLines } from './model/timelinewords';
import { clock, fixed, wallTime } from '../shared/units/units';
import type { Range } from '../shared/address/model/ranges';
import { go, view } from '../shared/address/address';
import { wording } from '../calls/calls';
import { published } from '../overview/overview';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { zero_us } from '../shared/session/session';
import { wallTimes } from '../shared/session/settings';
import { isSettling } from '../shared/session/settling';
import { theme } from '../shared/session/theme';
import * as timeline from './timeline';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import type { RankKey } from '../shared/api/types';
import { roundTicks } from '../shared/charts/model/ticks';

/** Focus of the pointer or the keyboard. */
export const focus = signal<{ spot: Spot | null; arrow: Arrow | null }>({ spot: null, arrow: null });
const NOTHING = { spot: null, arrow: null };

const ARROW_NEAR = 4;
const SLACK = 2;
const LEAST_DRAG = 4;

interface Drag {
  from: { x: number; y: number };
  shown: Range;
  kind: 'zoom' | 'pan' | 'box';
  isMoved: boolean;
}

/** Picture of the timeline: one canvas for any number of ranks and calls, which shows the part that is scrolled into view. */
export function Chart({ label }: { label: string }) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroll = useMemo(() => signal(0), []);
  const brush = useMemo(() => signal<Brush | null>(null), []);
  const drag = useRef<Drag | null>(null);
  const picture = useRef<Picture | null>(null);
  const scene = timeline.scene.value;
  const shown = timeline.shown.value;
  useEffect(() => {
    timeline.width.value = Math.max(0, width - GUTTER);
  }, [width]);
  // A span of the previous answer is not one of this answer, which may have the same call.
  useEffect(() => {
    const { spot } = focus.value;
    focus.value = spot === null ? NOTHING : { spot: spotOf(scene, idOf(spot.line.spans.rank, spot.line.row, spot.at)), arrow: null };
  }, [scene]);

  const chosen = timeline.chosen.value;
  const painted = [
    scene,
    shown,
    width,
    height,
    scroll.value,
    theme.value,
    focus.value,
    brush.value,
    chosen,
    published.value,
    view.value.messages,
    timeline.bands.value,
    timeline.box.value,
    isSettling.value,
  ] as const;
  useEffect(() => {
    if (canvas.current === null || width <= GUTTER || height <= RIBBON + AXIS) return;
    const made = pictureOf(width, height, scroll.value);
    picture.current = made;
    if (element.current !== null) element.current.dataset['arrows'] = String(made.arrows.length);
    const emphasis: Emphasis = { ...focus.value, chosen, brush: brush.value };
    const frame = requestAnimationFrame(() => {
      if (canvas.current !== null) paintScene(prepare(canvas.current, width, height), made, emphasis);
      if (made.scene.lines.length > 0 && !isSettling.value) performance.mark('first-useful-paint');
    });
    return () => cancelAnimationFrame(frame);
  }, painted);
  useEffect(() => revealed(element.current, chosen), [chosen?.line.y, view.value.call]);

  const under = (x: number, y: number): Under => {
    const now = picture.current;
    if (now === null || x < GUTTER) return {};
    if (y < RIBBON) {
      const mark = now.ribbon.find((one) => Math.abs(one.x + GUTTER - x) <= 7);
      return mark === undefined ? {} : { mark };
    }
    const found = y < RIBBON + LABEL ? now.published.find((one) => x >= GUTTER + one.x && x < GUTTER + one.x + one.width) : undefined;
    if (found !== undefined) return { found };
    const [left, top] = [x - GUTTER, y - RIBBON + now.scroll];
    const arrow = arrowAt(now.arrows, left, top, ARROW_NEAR);
    const spot = spotAt(now.scene, top, positionAt(now, x), SLACK * perPixel(now));
    return arrow !== null ? { arrow } : spot !== null ? { spot } : { band: bandUnder(now, top, positionAt(now, x)) };
  };

  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    const held = drag.current;
    if (held !== null) return dragTo(held, x, y);
    const host = event.currentTarget as HTMLElement;
    const hit = under(x, y);
    host.style.cursor = hit.mark || hit.found || hit.arrow || hit.spot ? 'pointer' : 'crosshair';
    if ((hit.spot ?? null)?.at !== focus.value.spot?.at || hit.spot?.line !== focus.value.spot?.line || (hit.arrow ?? null) !== focus.value.arrow) {
      focus.value = { spot: hit.spot ?? null, arrow: hit.arrow ?? null };
    }
    const lines = wordsOf(hit);
    if (lines === null) hideTip();
    else showTip({ x: event.clientX, y: event.clientY, lines });
  };
  const dragTo = (held: Drag, x: number, y: number): void => {
    const now = picture.current;
    if (now === null || Math.abs(x - held.from.x) < LEAST_DRAG) return;
    held.isMoved = true;
    if (held.kind === 'pan') return pan(held.shown, (held.from.x - x) / (now.width - GUTTER));
    const times = [Math.max(GUTTER, held.from.x), Math.max(GUTTER, x)] as const;
    brush.value = { times, heights: held.kind === 'box' ? [held.from.y, y] : null };
  };
  const press = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    drag.current = {
      from: positionIn(event),
      shown: timeline.shown.value,
      kind: event.shiftKey ? 'pan' : timeline.isBoxing.value ? 'box' : 'zoom',
      isMoved: false,
    };
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    hideTip();
  };
  const release = (event: PointerEvent): void => {
    const [held, brushed] = [drag.current, brush.value];
    drag.current = null;
    brush.value = null;
    const now = picture.current;
    if (held === null || now === null) return;
    if (brushed !== null) {
      const range: Range = [positionAt(now, Math.min(...brushed.times)), positionAt(now, Math.max(...brushed.times))];
      if (brushed.heights === null) return show(range);
      const { timeAt } = timeline.axis.value;
      const [top, bottom] = [Math.min(...brushed.heights), Math.max(...brushed.heights)];
      return timeline.select([timeAt(range[0]), timeAt(range[1])], linesIn(now.scene, top - RIBBON + now.scroll, bottom - RIBBON + now.scroll));
    }
    if (!held.isMoved) click(under(...xy(positionIn(event))));
  };
  const wheel = (event: WheelEvent): void => {
    const now = picture.current;
    if (!(event.ctrlKey || event.metaKey) || now === null) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.002), positionAt(now, positionIn(event).x));
  };
  useEffect(() => {
    // Handlers that Preact adds are passive, so the browser would zoom the page.
    const host = element.current;
    host?.addEventListener('wheel', wheel, { passive: false });
    return () => host?.removeEventListener('wheel', wheel);
  }, []);
  const keys = (event: KeyboardEvent): void => {
    if (event.key === 'Escape' && drag.current !== null) {
      drag.current = null;
      brush.value = null;
      return event.stopPropagation();
    }
    const from = focus.value.spot ?? timeline.chosen.value ?? firstSpot(scene, positionsOf(shown));
    if (event.key === 'Enter' && from !== null) {
      event.preventDefault();
      return enter(from);
    }
    if (event.shiftKey && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
      event.preventDefault();
      event.stopPropagation();
      return timeline.stretch(event.key === 'ArrowLeft' ? -0.02 : 0.02);
    }
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (step === undefined || from === null) return;
    event.preventDefault();
    event.stopPropagation();
    const [down, along] = step as [number, number];
    const next = focus.value.spot === null ? from : ((down === 0 ? beside(from, along) : across(scene, from, down)) ?? from);
    point(next, element.current);
  };

  return (
    <div
      ref={element}
      class="chart timeline-chart"
      tabIndex={0}
      role="application"
      aria-roledescription="timeline"
      aria-label={label}
      data-pointed={focus.value.spot === null ? '' : idOf(focus.value.spot.line.spans.rank, focus.value.spot.line.row, focus.value.spot.at)}
      data-published={published.value.map((one) => one.id).join(' ')}
      data-box={timeline.box.value === null ? '' : timeline.sinceZero(timeline.box.value).join('..')}
      data-shown={`${Math.round(shown[0] - zero_us.value)}..${Math.round(shown[1] - zero_us.value)}`}
      onPointerMove={hover}
      onPointerDown={press}
      onPointerUp={release}
      onPointerCancel={() => (drag.current = null)}
      onPointerLeave={() => {
        if (drag.current !== null) return;
        hideTip();
        focus.value = NOTHING;
      }}
      onDblClick={(event) => {
        const { spot } = under(...xy(positionIn(event)));
        if (spot === undefined) timeline.fitAll();
        else enter(spot);
      }}
      onKeyDown={keys}
      onScroll={(event) => (scroll.value = event.currentTarget.scrollTop)}
      onBlur={hideTip}
    >
      <canvas ref={canvas} aria-hidden="true" />
      <div class="timeline-tall" style={{ height: `${Math.max(1, scene.height + RIBBON + AXIS - height)}px` }} />
    </div>
  );
}

/** Words on a rank's time where its calls are not kept. */
function bandUnder({ scene, bands }: Picture, y: number, position: number): readonly string[] | null {
  const lane = scene.lanes.find((one) => y >= one.y && y < one.y + one.height);
  const known = lane === undefined ? undefined : timeline.bands.value.get(lane.spans.rank);
  if (lane === undefined || known === undefined || !bands.has(lane.spans.rank) || !isMain(scene, lane)) return null;
  const band = bandAt(known.bands, lane.notKept, position);
  return band === null ? null : bandLines(band, known.times);
}

interface Under {
  /** Words on a time of which calls are not kept. */
  band?: readonly string[] | null;
  spot?: Spot;
  arrow?: Arrow;
  mark?: RibbonMark;
  found?: PublishedMark;
}

const xy = ({ x, y }: { x: number; y: number }): [number, number] => [x, y];

const perPixel = ({ shown, width }: Picture): number => (shown[1] - shown[0]) / (width - GUTTER);

const positionAt = (picture: Picture, x: number): number => picture.shown[0] + (x - GUTTER) * perPixel(picture);

const positionsOf = ([first, last]: Range): Range => [timeline.axis.value.positionOf(first), timeline.axis.value.positionOf(last)];

/** Show the times between two positions. */
function show([first, last]: Range): void {
  const { timeAt } = timeline.axis.value;
  timeline.move([timeAt(first), timeAt(last)]);
}

const bounds = (): Range => positionsOf(timeline.extent.value);

export function zoom(factor: number, about?: number): void {
  const range = positionsOf(timeline.shown.value);
  show(zoomed(range, factor, about ?? (range[0] + range[1]) / 2, bounds()));
}

export function pan(from: Range, share: number): void {
  show(moved(positionsOf(from), share, bounds()));
}

function pictureOf(width: number, height: number, scroll: number): Picture {
  const scene = timeline.scene.value;
  const shown = positionsOf(timeline.shown.value);
  const wide = width - GUTTER;
  const xOf = (position: number): number => ((position - shown[0]) / (shown[1] - shown[0])) * wide;
  const arrows = arrowsOf(scene, xOf, wide);
  return {
    scene,
    shown,
    width,
    height,
    scroll,
    waits: [],
    arrows: view.value.messages ? arrows : tellingArrows(arrows, shown[1] - shown[0], [focus.value.spot, timeline.chosen.value]),
    box: timeline.box.value && positionsOf(timeline.box.value),
    boxLines: new Set(view.value.boxLines),
    ribbon: ribbonOf(timeline.anomalies.value, xOf, wide),
    published: publishedOf(published.value, timeline.axis.value.positionOf, xOf, wide),
    bands: timeline.bands.value,
    ticks: ticksOf(shown, wide, xOf),
    programs: wording.value.programs,
    theme: theme.value,
  };
}

/** Ticks of the axis, since the run's start or as time of day; on a folded axis, each at its position. */
function ticksOf(shown: Range, wide: number, xOf: (position: number) => number): { x: number; text: string }[] {
  const axis = timeline.axis.value;
  const zero = zero_us.value;
  if (axis.isFolded) {
    const places = roundTicks(0, wide, Math.max(2, wide / 110));
    return places.map((x) => tick(axis.timeAt(shown[0] + (x / wide) * (shown[1] - shown[0])) - zero, x, shown[1] - shown[0]));
  }
  const times = roundTicks(shown[0] - zero, shown[1] - zero, Math.max(2, Math.floor(wide / 110)));
  return times.map((time) => tick(time, xOf(zero + time), shown[1] - shown[0]));
}

function tick(time: number, x: number, length: number): { x: number; text: string } {
  // Seconds, with as many decimals as neighbouring ticks need to differ: one unit along the axis.
  const decimals = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.max(1, length) / 1e6))));
  if (wallTimes.value) return { x, text: wallTime(zero_us.value + time, decimals) };
  return { x, text: length >= 120e6 ? clock(time) : `${fixed(time / 1e6, decimals)} s` };
}

function wordsOf({ spot, arrow, mark, found, band }: Under): readonly string[] | null {
  if (mark !== undefined) return ribbonLines(mark, wording.value);
  if (found !== undefined) return publishedLines(found, zero_us.value);
  if (arrow !== undefined) return arrowLines(arrow, wording.value);
  return spot === undefined ? (band ?? null) : spotLines(timeline.scene.value, spot, wording.value);
}

function click({ spot, arrow, mark, found }: Under): void {
  hideTip();
  if (mark !== undefined) select(mark.spots.reduce((best, one) => (severity(one) > severity(best) ? one : best)));
  else if (found !== undefined) go({ page: 'incident', incident: (found.findings[0] as PublishedFinding).id, call: null });
  else if (arrow !== undefined) follow(arrow);
  else if (spot !== undefined) select(spot);
}

const severity = ({ line, at }: Spot): number => line.spans.judged.get(`${line.row.step[at]}:${line.row.row[at]}`)?.severity_us ?? 0;

/** Select a call, or zoom in to merged ones. */
export function select(spot: Spot): void {
  const { line, at } = spot;
  const times: [number, number] = [line.row.begin[at] as number, line.row.end[at] as number];
  if ((line.row.flags[at] as number) & MERGED) return timeline.move([times[0] - (times[1] - times[0]) * 0.1, times[1] + (times[1] - times[0]) * 0.1]);
  timeline.choose(idOf(line.spans.rank, line.row, at), times);
}

/** Open the page of a call that has a record; other calls are only selected. */
function enter(spot: Spot): void {
  const { line, at } = spot;
  const id = idOf(line.spans.rank, line.row, at);
  if (line.spans.judged.has(`${line.row.step[at]}:${line.row.row[at]}`)) go({ page: 'call', call: id });
  else select(spot);
}

/** Go to the other end of a message or launch; a rank that is not shown yet is added. */
export function follow(arrow: Arrow): void {
  const { link, rank } = arrow;
  const other: RankKey = `${rank.split(':')[0]}:${link.otherRank}`;
  if (link.kind !== 2 && !timeline.ranks.value.includes(other)) return timeline.togglePartner(other);
  if (link.otherTime < 0) return;
  const lines = timeline.scene.value.lines.filter((line) => line.spans.rank === (link.kind === 2 ? rank : other) && line.row.thread === link.otherThread);
  const line = lines.find((one) => one.row.depth === link.otherDepth) ?? lines[lines.length - 1];
  if (line === undefined) return;
  const position = timeline.axis.value.positionOf(link.otherTime);
  const spot = spotAt({ ...timeline.scene.value, lines: [line] }, line.y + ROW / 2, position, 1);
  if (spot !== null) select(spot);
}

/** Move the keyboard's focus to a span, announce it, and keep it in the picture. */
export function point(spot: Spot, host: HTMLElement | null): void {
  focus.value = { spot, arrow: null };
  const { line, at } = spot;
  const lines = spotLines(timeline.scene.value, spot, wording.value);
  spoken.value = lines.join(', ');
  const [first, last] = positionsOf(timeline.shown.value);
  const [begin, end] = [line.begin[at] as number, line.end[at] as number];
  if (end < first || begin > last) pan(timeline.shown.value, ((begin + end) / 2 - (first + last) / 2) / (last - first));
  revealed(host, spot);
  if (host === null) return;
  const share = Math.min(1, Math.max(0, (begin - first) / (last - first)));
  const place = onPage(host, GUTTER + share * (host.clientWidth - GUTTER), RIBBON + line.y - host.scrollTop + ROW);
  showTip({ ...place, lines }, 0);
}

/** Scroll so that the line of a span is visible. */
function revealed(host: HTMLElement | null, spot: Spot | null): void {
  if (host === null || spot === null) return;
  const [top, bottom] = [spot.line.y, spot.line.y + ROW + RIBBON + AXIS];
  if (top < host.scrollTop) host.scrollTop = top;
  else if (bottom > host.scrollTop + host.clientHeight) host.scrollTop = bottom - host.clientHeight;
}
