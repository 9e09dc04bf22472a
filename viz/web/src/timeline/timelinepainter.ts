/** Painter of a timeline: spans as pixels, and then names, marks and arrows. */

import { shorten } from '../shared/names/names';
import { ANOMALY, firstEndingFrom, GROUPS, LAUNCHED, MERGED, OPEN, type Interval } from './model/spans';
import type { Band } from './model/bands';
import { LABEL, type PublishedMark } from './model/published';
import { lineOf } from './model/selection';
import { laneName } from './model/timelinewords';
import { copyRow, newRowPixels, rasterRow, type RasterColours } from './model/timelineraster';
import { ROW, STUB, type Arrow, type Lane, type Line, type RibbonMark, type Scene, type Spot } from './model/lines';
import { GROUP_FILLS, pick, pixelOf, type Group, type Theme } from '../shared/charts/model/tokens';
import { bytes, count } from '../shared/units/units';
import type { PartLook } from '../overview/model/budgetparts';
import type { Range } from '../shared/address/model/ranges';
import type { RankKey } from '../shared/api/types';
import { colour, drawTriangle, FONT, hatch } from '../shared/charts/canvas';
import { underline } from '../call/windowpainter';

export const GUTTER = 84;
export const RIBBON = 20;
export const AXIS = 20;

/** Most names and arrows that are drawn: more would be a black area. */
const MOST_NAMES = 600;
const MOST_ARROWS = 500;
const LEAST_NAME = 26;
/** Least characters of a name: fewer are not readable. */
const LEAST_CHARACTERS = 5;
/** Distance below which narrow abnormal calls share a triangle; the ribbon has their number. */
const TRIANGLE_ROOM = 16;
/** Number of arrows up to which their sizes are written beside them. */
const FEW_ARROWS = 40;

export interface Picture {
  scene: Scene;
  /** Positions at the left and right edge of the area beside the names of lanes. */
  shown: Range;
  width: number;
  height: number;
  scroll: number;
  /** Areas of lanes in which they waited. */
  waits: readonly Shade[];
  arrows: readonly Arrow[];
  ribbon: readonly RibbonMark[];
  /** Selected time, and its lines; none for all. */
  box: Range | null;
  boxLines: ReadonlySet<string>;
  /** Begins of findings about published quantities. */
  published: readonly PublishedMark[];
  /** Bands of ranks, for times of which calls are not kept. */
  bands: ReadonlyMap<RankKey, { bands: readonly Band[] }>;
  ticks: readonly { x: number; text: string }[];
  programs: number;
  theme: Theme;
}

/** Area of a lane between two positions. */
export interface Shade {
  y: number;
  height: number;
  first: number;
  last: number;
}

/** Edges of what is being selected, in pixels; without heights, all lines. */
export interface Brush {
  times: Range;
  heights: Range | null;
}

export interface Emphasis {
  spot: Spot | null;
  arrow: Arrow | null;
  /** Span of the selected call. */
  chosen: Spot | null;
  brush: Brush | null;
}

const buffers = { picture: new ImageData(1, 1), strip: document.createElement('canvas') };

export function paintScene(context: CanvasRenderingContext2D, picture: Picture, emphasis: Emphasis): void {
  const { width, height, theme } = picture;
  paintTicks(context, picture);
  context.save();
  context.beginPath();
  context.rect(GUTTER, RIBBON, width - GUTTER, height - RIBBON - AXIS);
  context.clip();
  context.translate(GUTTER, RIBBON - picture.scroll);
  for (const lane of picture.scene.lanes) if (isSeen(picture, lane.y, lane.height)) paintUnknown(context, picture, lane);
  paintSpans(context, picture);
  for (const wait of picture.waits) if (isSeen(picture, wait.y, wait.height)) paintWait(context, picture, wait);
  paintMarks(context, picture, emphasis);
  if (picture.box !== null) paintBox(context, picture, picture.box);
  paintArrows(context, picture, emphasis);
  context.restore();
  paintGutter(context, picture);
  paintRibbon(context, picture, theme);
  paintPublished(context, picture);
  if (emphasis.brush !== null) paintBrush(context, picture, emphasis.brush);
}

const xOf = ({ shown, width }: Picture, position: number): number => ((position - shown[0]) / (shown[1] - shown[0])) * (width - GUTTER);

const isSeen = ({ scroll, height }: Picture, y: number, tall: number): boolean => y + tall >= scroll && y <= scroll + height - RIBBON - AXIS;

/** Hatch the times of a lane for which nothing was kept, or nothing was analysed, each kind in one go. */
function paintUnknown(context: CanvasRenderingContext2D, picture: Picture, lane: Lane): void {
  const bands = isMain(picture.scene, lane) ? (picture.bands.get(lane.spans.rank)?.bands ?? []) : [];
  for (const kind of ['not kept', 'lost'] as const) {
    const pieces = (kind === 'lost' ? lane.lost : lane.notKept).map((gap) => clipped(picture, gap)).filter(([x0, x1]) => x1 - x0 >= 2);
    if (pieces.length === 0) continue;
    context.save();
    context.beginPath();
    for (const [x0, x1] of pieces) context.rect(x0, lane.y, x1 - x0, lane.height);
    context.clip();
    if (kind === 'not kept' && bands.length > 0) {
      for (const band of bands) paintBand(context, picture, lane, band);
      context.restore();
      continue;
    }
    const first = Math.min(...pieces.map(([x0]) => x0));
    hatch(context, kind, first, lane.y, Math.max(...pieces.map(([, x1]) => x1)) - first, lane.height, picture.theme);
    context.restore();
    for (const [x0, x1] of pieces)
      if (x1 - x0 > (kind === 'lost' ? 40 : 80)) paintWord(context, kind, (x0 + x1) / 2, lane.y + lane.height - ROW / 2, picture.theme);
  }
}

/** Whether a lane is the first of its rank, which has the time of all its threads. */
export const isMain = (scene: Scene, lane: Lane): boolean => scene.lanes.find((one) => one.spans.rank === lane.spans.rank) === lane;

/** Paint where the time of a stretch of steps went, from below. */
function paintBand(context: CanvasRenderingContext2D, picture: Picture, lane: Lane, { first, last, parts }: Band): void {
  const [x0, x1] = clipped(picture, [first, last]);
  if (x1 <= x0) return;
  for (const [look, from, to] of parts) {
    context.fillStyle = bandColour(look, picture.theme);
    context.fillRect(x0, lane.y + lane.height * (1 - to), Math.max(0.5, x1 - x0), lane.height * (to - from));
  }
}

const bandColour = (look: PartLook, theme: Theme): string =>
  look === 'waiting' ? colour('amber-banner', theme) : pick(GROUP_FILLS[look === 'asleep' || look === 'unrecorded' ? 'other' : look], theme);

function clipped(picture: Picture, [first, last]: Interval): Interval {
  return [Math.max(-2, xOf(picture, first)), Math.min(picture.width - GUTTER + 2, xOf(picture, last))];
}

function paintWord(context: CanvasRenderingContext2D, word: string, x: number, y: number, theme: Theme): void {
  context.font = `11px ${FONT}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  const wide = context.measureText(word).width;
  context.fillStyle = colour('surface', theme);
  context.fillRect(x - wide / 2 - 4, y - 8, wide + 8, 16);
  context.fillStyle = colour('text-2', theme);
  context.fillText(word, x, y);
}

function paintSpans(context: CanvasRenderingContext2D, picture: Picture): void {
  const { scene, shown, theme } = picture;
  const scale = context.getTransform().a;
  const [left, top] = [GUTTER, RIBBON];
  const wide = Math.max(1, Math.round((picture.width - left) * scale));
  const high = Math.max(1, Math.round((picture.height - top - AXIS) * scale));
  if (buffers.picture.width !== wide || buffers.picture.height !== high) buffers.picture = new ImageData(wide, high);
  const target = new Uint32Array(buffers.picture.data.buffer);
  target.fill(0);
  const pixels = newRowPixels(wide);
  const colours = coloursOf(theme);
  for (const line of scene.lines) {
    if (!isSeen(picture, line.y, ROW)) continue;
    rasterRow(
      pixels,
      { begin: line.begin, end: line.end, function: line.row.function, flags: line.row.flags },
      line.groups,
      colours,
      shown[0],
      (shown[1] - shown[0]) / wide,
    );
    const y = Math.round((line.y + 1.5 - picture.scroll) * scale);
    copyRow(target, wide, pixels, y, Math.round((ROW - 3) * scale), Math.max(1, Math.round(scale)));
  }
  // Drawn through another canvas: pixels that are put directly would erase the hatching below.
  const { strip } = buffers;
  if (strip.width !== wide || strip.height !== high) [strip.width, strip.height] = [wide, high];
  (strip.getContext('2d') as CanvasRenderingContext2D).putImageData(buffers.picture, 0, 0);
  context.drawImage(strip, 0, picture.scroll, picture.width - left, picture.height - top - AXIS);
}

/** Paint a wait over the bars, so that it is visible inside callers, and closed at both ends, so that it is visible without colour. */
function paintWait(context: CanvasRenderingContext2D, picture: Picture, { y, height, first, last }: Shade): void {
  const [x0, x1] = clipped(picture, [first, last]);
  if (x1 <= x0) return;
  context.fillStyle = context.strokeStyle = colour('accent', picture.theme);
  context.globalAlpha = 0.16;
  context.fillRect(x0, y, x1 - x0, height);
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.setLineDash([4, 3]);
  context.strokeRect(x0, y + 0.75, Math.max(1, x1 - x0), height - 1.5);
  context.setLineDash([]);
}

const known = new Map<Theme, RasterColours>();

function coloursOf(theme: Theme): RasterColours {
  let found = known.get(theme);
  if (found === undefined) {
    const fills = Uint32Array.from(GROUPS, (group) => pixelOf(pick(GROUP_FILLS[group], theme)));
    found = { fills, edge: pixelOf(colour('edge', theme)), anomaly: pixelOf(colour('anomaly', theme)) };
    known.set(theme, found);
  }
  return found;
}

/** Paint names, underlines of groups, triangles and rings of single spans. */
function paintMarks(context: CanvasRenderingContext2D, picture: Picture, emphasis: Emphasis): void {
  let names = 0;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (const line of picture.scene.lines) {
    if (!isSeen(picture, line.y, ROW)) continue;
    let lastTriangle = -Infinity;
    const { flags } = line.row;
    for (let at = firstEndingFrom(line.end, picture.shown[0]); at < line.begin.length; at++) {
      const x0 = xOf(picture, line.begin[at] as number);
      if (x0 > picture.width - GUTTER) break;
      const isAbnormal = ((flags[at] as number) & ANOMALY) !== 0;
      const width = Math.max(isAbnormal ? 3 : 1, xOf(picture, line.end[at] as number) - x0);
      const from = Math.max(0, x0);
      const seen = x0 + width - from;
      if (isAbnormal && from - lastTriangle >= (seen >= 16 ? 9 : TRIANGLE_ROOM)) {
        drawTriangle(context, seen >= 16 ? from + 9 : from + 1.5, line.y + ROW / 2, 9, colour('anomaly', picture.theme));
        lastTriangle = from;
      }
      if (seen < LEAST_NAME) continue;
      const group = GROUPS[line.groups[line.row.function[at] as number] as number] as Group;
      underline(context, group, from, line.y + ROW - 3.5, seen, picture.theme);
      if (names < MOST_NAMES && paintName(context, picture, line, at, from + (isAbnormal ? 16 : 4), x0 + width - 3)) names++;
    }
  }
  if (emphasis.chosen !== null) ring(context, picture, emphasis.chosen, 2);
  if (emphasis.spot !== null) ring(context, picture, emphasis.spot, 1);
}

const shortened = new Map<string, string>();

function paintName(context: CanvasRenderingContext2D, picture: Picture, line: Line, at: number, left: number, right: number): boolean {
  const flags = line.row.flags[at] as number;
  const wide = Math.min(right, picture.width - GUTTER) - left;
  const room = Math.floor(wide / (flags & ANOMALY ? 7.2 : 6.4));
  if (room < LEAST_CHARACTERS) return false;
  const name = line.spans.functions[line.row.function[at] as number] as string;
  const limit = Math.min(room, 80);
  const key = `${limit} ${name}`;
  let text = flags & MERGED ? `${count(line.row.count[at] as number)} calls` : shortened.get(key);
  if (text === undefined) shortened.set(key, (text = shorten(name, limit).text));
  if (text.length > room) return false;
  context.font = `${flags & ANOMALY ? '600 ' : flags & MERGED ? 'italic ' : ''}11px ${FONT}`;
  context.fillStyle = colour('text', picture.theme);
  // A text of wide letters is compressed to the width.
  context.fillText(flags & OPEN ? `${text} →` : text, left, line.y + ROW / 2, wide);
  return true;
}

function ring(context: CanvasRenderingContext2D, picture: Picture, { line, at }: Spot, thick: number): void {
  const x0 = Math.max(-4, xOf(picture, line.begin[at] as number));
  const x1 = Math.min(picture.width - GUTTER + 4, Math.max(x0 + 3, xOf(picture, line.end[at] as number)));
  context.strokeStyle = colour('accent', picture.theme);
  context.lineWidth = thick;
  context.strokeRect(x0 - 1.5, line.y + 0.5, x1 - x0 + 3, ROW - 1);
}

/** Paint arrows. If there are many, those that leave the picture appear only under the pointer, and the others are faint, most of all those without a long wait. */
function paintArrows(context: CanvasRenderingContext2D, picture: Picture, emphasis: Emphasis): void {
  const { theme } = picture;
  const isFew = picture.arrows.length <= FEW_ARROWS;
  const isTold = picture.arrows.length <= FEW_ARROWS / 2;
  const shown = isFew ? picture.arrows : picture.arrows.filter((arrow) => arrow.to !== null).slice(0, MOST_ARROWS);
  const isFaint = shown.length > FEW_ARROWS;
  // Least wait that is visible at this scale.
  const least_us = (3 * (picture.shown[1] - picture.shown[0])) / (picture.width - GUTTER);
  for (const arrow of shown) {
    const isWait = arrow.waited_us > least_us;
    context.globalAlpha = isFaint ? (isWait ? 0.6 : 0.15) : 1;
    paintArrow(context, arrow, colour('text-2', theme), isWait ? 2 : 1);
  }
  context.globalAlpha = 1;
  // Texts of arrows that leave the picture would cover the bars above and below.
  if (isTold)
    paintSizes(
      context,
      shown.filter((arrow) => arrow.to !== null),
      theme,
    );
  if (emphasis.arrow === null) return;
  paintArrow(context, emphasis.arrow, colour('accent', theme), 2);
  paintSizes(context, [emphasis.arrow], theme);
}

/** Paint the sizes of messages beside their arrows, as far as texts do not overlap. */
function paintSizes(context: CanvasRenderingContext2D, arrows: readonly Arrow[], theme: Theme): void {
  const taken: { x: number; y: number }[] = [];
  for (const arrow of arrows) {
    const { link, isInward, to } = arrow;
    const size = link.count > 1 ? `${count(link.count)}×` : link.kind === LAUNCHED ? 'launch' : bytes(link.bytes);
    const text = to === null ? `${size} ${isInward ? 'from' : 'to'} r${link.otherRank}` : size;
    const x = to === null ? arrow.x : (arrow.x + to.x) / 2;
    const y = to === null ? arrow.y + (isInward ? -1 : 1) * (STUB + 8) : (arrow.y + to.y) / 2;
    if (taken.some((other) => Math.abs(other.y - y) < 16 && Math.abs(other.x - x) < 80)) continue;
    taken.push({ x, y });
    paintWord(context, text, x, y, theme);
  }
}

function paintArrow(context: CanvasRenderingContext2D, arrow: Arrow, ink: string, thick: number): void {
  const { link, isInward } = arrow;
  const end = arrow.to ?? { x: arrow.x, y: arrow.y + (isInward ? -STUB : STUB) };
  const [tail, head] = isInward ? [end, arrow] : [arrow, end];
  context.strokeStyle = context.fillStyle = ink;
  context.lineWidth = link.count > 1 ? thick + 1 : thick;
  context.setLineDash(link.kind === LAUNCHED ? [4, 3] : arrow.to === null ? [2, 2] : []);
  context.beginPath();
  context.moveTo(tail.x, tail.y);
  context.lineTo(head.x, head.y);
  context.stroke();
  context.setLineDash([]);
  const turn = Math.atan2(head.y - tail.y, head.x - tail.x);
  context.beginPath();
  for (const side of [0, 2.7, -2.7])
    context.lineTo(head.x + (side === 0 ? 0 : 7 * Math.cos(turn + side)), head.y + (side === 0 ? 0 : 7 * Math.sin(turn + side)));
  context.fill();
}

function paintGutter(context: CanvasRenderingContext2D, picture: Picture): void {
  const { theme, height } = picture;
  context.save();
  context.beginPath();
  context.rect(0, RIBBON, GUTTER, height - RIBBON - AXIS);
  context.clip();
  context.translate(0, RIBBON - picture.scroll);
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  picture.scene.lanes.forEach((lane, at) => {
    if (!isSeen(picture, lane.y, lane.height)) return;
    const [rank, thread] = laneName(lane, picture.programs);
    const isFirst = picture.scene.lanes[at - 1]?.spans !== lane.spans;
    context.fillStyle = colour(isFirst ? 'control' : 'border', theme);
    if (at > 0) context.fillRect(0, lane.y - 3.5, picture.width, 1);
    const middle = lane.y + ROW / 2;
    context.font = `600 12px ${FONT}`;
    context.fillStyle = colour('text', theme);
    if (isFirst) context.fillText(rank, 4, middle);
    context.font = `11px ${FONT}`;
    context.fillStyle = colour('text-2', theme);
    const own = isFirst && lane.height > ROW ? middle + ROW * 0.8 : middle;
    context.fillText(isFirst && lane.height <= ROW ? thread.replace('thread', 'thr.') : thread, isFirst && lane.height <= ROW ? 34 : 4, own);
  });
  context.restore();
  context.fillStyle = colour('border', theme);
  context.fillRect(GUTTER - 1, RIBBON, 1, height - RIBBON - AXIS);
}

/** Paint the ribbon of abnormal calls of all lanes at the top, where no zoom hides one. */
function paintRibbon(context: CanvasRenderingContext2D, picture: Picture, theme: Theme): void {
  context.font = `600 11px ${FONT}`;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = colour('text-2', theme);
  context.fillText('abnormal', 4, RIBBON / 2);
  for (const mark of picture.ribbon) {
    drawTriangle(context, GUTTER + mark.x, RIBBON / 2, 9, colour('anomaly', theme));
    if (mark.spots.length === 1) continue;
    context.font = `600 9px ${FONT}`;
    context.textAlign = 'center';
    context.fillStyle = colour('anomaly', theme);
    context.fillText(mark.spots.length > 99 ? '99+' : String(mark.spots.length), GUTTER + mark.x, RIBBON - 2);
  }
}

/** Paint lines of findings about published quantities over all lanes, with their ids. */
function paintPublished(context: CanvasRenderingContext2D, { published, height, theme }: Picture): void {
  context.strokeStyle = colour('accent', theme);
  context.lineWidth = 1;
  context.font = `600 11px ${FONT}`;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (const { x, width, text, lines } of published) {
    context.setLineDash([4, 3]);
    context.beginPath();
    for (const line of lines) {
      context.moveTo(Math.round(GUTTER + line) + 0.5, RIBBON);
      context.lineTo(Math.round(GUTTER + line) + 0.5, height - AXIS);
    }
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour('surface', theme);
    context.fillRect(GUTTER + x, RIBBON, width, LABEL);
    context.fillStyle = colour('accent', theme);
    context.fillText(text, GUTTER + x + 4, RIBBON + LABEL / 2);
  }
}

function paintTicks(context: CanvasRenderingContext2D, { ticks, width, height, theme }: Picture): void {
  context.font = `11px ${FONT}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (const { x, text } of ticks) {
    context.fillStyle = colour('border', theme);
    context.fillRect(Math.round(GUTTER + x), RIBBON, 1, height - RIBBON - AXIS);
    if (x < 16 || x > width - GUTTER - 16) continue;
    context.fillStyle = colour('tick', theme);
    context.fillText(text, GUTTER + x, height - AXIS / 2);
  }
}

/** Paint the selected time over its lines. */
function paintBox(context: CanvasRenderingContext2D, picture: Picture, box: Range): void {
  const { scene, boxLines, theme } = picture;
  const [x0, x1] = clipped(picture, [box[0], box[1]]);
  context.fillStyle = context.strokeStyle = colour('accent', theme);
  context.lineWidth = 2;
  for (const { spans, thread, y, height } of scene.lanes) {
    if (boxLines.size > 0 && !boxLines.has(spans.rank) && !boxLines.has(lineOf(spans.rank, thread))) continue;
    context.globalAlpha = 0.14;
    context.fillRect(x0, y, x1 - x0, height);
    context.globalAlpha = 1;
    context.beginPath();
    for (const x of [x0, x1]) {
      context.moveTo(x, y - 2);
      context.lineTo(x, y + height + 2);
    }
    context.stroke();
  }
}

function paintBrush(context: CanvasRenderingContext2D, { height, theme }: Picture, { times: [from, to], heights }: Brush): void {
  context.globalAlpha = 0.2;
  context.fillStyle = colour('accent', theme);
  const [top, bottom] = heights === null ? [RIBBON, height - AXIS] : [Math.max(RIBBON, Math.min(...heights)), Math.min(height - AXIS, Math.max(...heights))];
  context.fillRect(Math.min(from, to), top, Math.abs(to - from), bottom - top);
  context.globalAlpha = 1;
}
