/** The ranks that somebody has selected, each in the slot of a colour. */

import { SLOTS } from '../../charts/model/tokens';
import { RANK } from './ranges';
import type { RankKey } from '../../api/types';

/** Selected ranks by colour slot; null is a free slot. */
export type Selected = readonly (RankKey | null)[];

/** The slots after a click on a rank: it leaves its slot, or takes `preferred` or else the first free one. */
export function toggleRank(selected: Selected, rank: RankKey, preferred: number | null = null): (RankKey | null)[] {
  const slots = [...selected];
  const held = slots.indexOf(rank);
  if (held >= 0) {
    slots[held] = null;
    return trimmed(slots);
  }
  const free = slots.indexOf(null);
  const slot = preferred !== null && slots[preferred] == null ? preferred : free >= 0 ? free : slots.length;
  if (slot >= SLOTS) return slots;
  while (slots.length <= slot) slots.push(null);
  slots[slot] = rank;
  return slots;
}

/** Slots for ranks that nobody selected: who was there before keeps its slot, so colours do not wander. */
export function keepSlots(previous: Selected, ranks: readonly RankKey[]): (RankKey | null)[] {
  const wanted = ranks.slice(0, SLOTS);
  const slots = previous.map((rank) => (rank !== null && wanted.includes(rank) ? rank : null));
  for (const rank of wanted) {
    if (slots.includes(rank)) continue;
    const free = slots.indexOf(null);
    if (free >= 0) slots[free] = rank;
    else slots.push(rank);
  }
  return trimmed(slots);
}

/** Without the free slots at its end. */
export function trimmed(slots: Selected): (RankKey | null)[] {
  let length = slots.length;
  while (length > 0 && slots[length - 1] === null) length--;
  return slots.slice(0, length);
}

/** `0:3,,1:12`: what is no rank, or stands there again, leaves its slot free. */
export function parseSelected(text: string): (RankKey | null)[] {
  const seen = new Set<string>();
  const slots = text
    .split(',')
    .slice(0, SLOTS)
    .map((rank) => {
      const usable = RANK.test(rank) && !seen.has(rank);
      seen.add(rank);
      return usable ? rank : null;
    });
  return trimmed(slots);
}
