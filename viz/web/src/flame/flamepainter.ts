/** Painter of the part of a flame graph that is scrolled into view. */

import { nameOf } from './model/flamewords';
import { ROW, type Box, type Layout } from './model/flamelayout';
import type { Frame, Matches } from './model/frames';
import { colour, FONT } from '../shared/charts/canvas';
import { COLOURS, GROUP_FILLS, pick, type ColourName, type Group, type Theme } from '../shared/charts/model/tokens';
import { groupOf } from '../shared/names/groups';
import { count } from '../shared/units/units';

/** Least characters of a name: fewer are not readable. */
const LEAST_CHARACTERS = 3;
const CHARACTER_PX = 6.6;
const PADDING = 4;

/** Appearance of a frame. */
export interface Look {
  colour: ColourName | Group;
  /** Opacity of the colour, from 0 to 1. */
  strength: number;
  /** Mark before the name, so that colour alone tells nothing. */
  mark: string;
}

/** Appearance by the group of the function. */
export const groupLook = (frame: Frame): Look => ({ colour: frame.name === '' ? 'border' : groupOf(frame.name), strength: 1, mark: '' });

export interface Picture {
  frames: readonly Frame[];
  layout: Layout;
  zoomed: number;
  width: number;
  height: number;
  scroll: number;
  /** Frames that the search found; null without a search. */
  matches: Matches | null;
  pointed: Box | null;
  look: (index: number) => Look;
  theme: Theme;
}

export function paintFlame(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, height, scroll, theme } = picture;
  context.save();
  context.translate(0, -scroll);
  const last = Math.min(layout.rows.length - 1, Math.floor((scroll + height) / ROW));
  for (let depth = Math.max(0, Math.floor(scroll / ROW)); depth <= last; depth++) {
    for (const box of layout.rows[depth] ?? []) paintBox(context, picture, box);
  }
  if (picture.pointed !== null) outline(context, picture.pointed, colour('text', theme), 2);
  context.restore();
}

function paintBox(context: CanvasRenderingContext2D, picture: Picture, box: Box): void {
  const { frames, matches, theme } = picture;
  const isMatch = matches !== null && box.merged === 0 && matches.flags[box.index] === 1;
  const isAbove = box.depth < (frames[picture.zoomed] as Frame).depth;
  const width = Math.max(0.5, box.width - (box.width > 3 ? 1 : 0));
  const y = box.depth * ROW;
  if (box.merged > 0) {
    context.fillStyle = colour('unknown', theme);
    context.fillRect(box.x, y, width, ROW - 1);
  } else {
    const look = picture.look(box.index);
    context.globalAlpha = look.strength * (isAbove || (matches !== null && !isMatch) ? 0.45 : 1);
    context.fillStyle = pick(look.colour in GROUP_FILLS ? GROUP_FILLS[look.colour as Group] : COLOURS[look.colour as ColourName], theme);
    context.fillRect(box.x, y, width, ROW - 1);
    context.globalAlpha = 1;
    if (isMatch && width >= 4) outline(context, box, colour('accent', theme), 2);
    else if (isMatch) {
      context.fillStyle = colour('accent', theme);
      context.fillRect(box.x, y, width, ROW - 1);
    }
  }
  paintName(context, picture, box, isMatch);
}

function paintName(context: CanvasRenderingContext2D, { frames, look, theme }: Picture, box: Box, isMatch: boolean): void {
  const room = Math.floor((box.width - 2 * PADDING) / (isMatch ? CHARACTER_PX * 1.1 : CHARACTER_PX));
  if (room < LEAST_CHARACTERS) return;
  const { mark } = look(box.index);
  const text = box.merged > 0 ? `${count(box.merged)} more` : mark + nameWithin(frames[box.index] as Frame, Math.min(room - mark.length, 120));
  if (text.length > room) return;
  context.font = `${isMatch ? '600 ' : ''}11px ${FONT}`;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = colour('text', theme);
  context.fillText(text, box.x + PADDING, box.depth * ROW + ROW / 2);
}

/** Shortened names: shortening takes longer than painting, and each frame of a zoom needs the same names. */
const shortened = new Map<string, string>();
const MOST_KEPT = 20_000;

function nameWithin(frame: Frame, limit: number): string {
  const key = `${limit} ${frame.name}`;
  let text = shortened.get(key);
  if (text === undefined) {
    if (shortened.size >= MOST_KEPT) shortened.clear();
    shortened.set(key, (text = nameOf(frame, limit)));
  }
  return text;
}

function outline(context: CanvasRenderingContext2D, box: Box, ink: string, thick: number): void {
  context.strokeStyle = ink;
  context.lineWidth = thick;
  context.strokeRect(box.x + thick / 2, box.depth * ROW + thick / 2, Math.max(1, box.width - thick - 1), ROW - 1 - thick);
}
