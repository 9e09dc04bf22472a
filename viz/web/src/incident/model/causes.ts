/** Causes of lost time as the page shows them. What it knows of each cause is in `CAUSES` alone. */

import { CAUSES } from '../../shared/api/causes';
import { shorten } from '../../shared/names/names';
import { exact, plural } from '../../shared/units/units';
import type { Part } from '../../shared/api/types';

export interface Cause {
  id: string;
  colour: 'program' | 'ranks' | 'node' | 'unexplained';
  isWait: boolean;
  isHeldUp: boolean;
  text: string;
}

const BY_ID: ReadonlyMap<string, Cause> = new Map(CAUSES.map((cause) => [cause.id, cause]));

/** Cause by its id; that of a plugin is known by its name alone. */
export const causeOf = (kind: string): Cause =>
  BY_ID.get(kind) ?? { id: kind, colour: 'unexplained', isWait: false, isHeldUp: false, text: `by “${kind}”, which a plugin found` };

/** A field in the text of a cause: its name, a noun that it counts, and the text for an empty one. */
const FIELD = /\{(\w+)(?: ([^}|]+))?(?:\|([^}]*))?\}/g;

/** Cause of one part of the excess, in words. */
export function partText(part: Part): string {
  const fields = fieldsOf(part);
  const clauseOf = (clause: string, at: number): string => {
    const isInBrackets = at % 2 === 1;
    if (isInBrackets && [...clause.matchAll(FIELD)].some(([, name = '']) => !fields[name])) return '';
    return clause.replace(FIELD, (_, name: string, noun?: string, otherwise: string = '') =>
      noun === undefined ? fields[name] || otherwise : plural(part.count ?? 0, noun),
    );
  };
  return causeOf(part.kind).text.split(/[[\]]/).map(clauseOf).join('');
}

function fieldsOf({ function: full, rank, is_matched, by = '', count = 0 }: Part): Readonly<Record<string, string>> {
  const name = full === '' ? '' : shorten(full, 40).text;
  return {
    function: name,
    rank: rank === null ? 'a rank that is not known' : `rank ${rank}`,
    by,
    count: count === 0 ? '' : exact(count),
    meanwhile: `${name === '' ? '' : `, which was in ${name}`}${is_matched ? '' : ' (inferred from when it lost time: no message shows it)'}`,
  };
}
