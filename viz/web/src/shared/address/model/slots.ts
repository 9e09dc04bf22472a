/** Selected ranks, each in a slot with a colour. */

import { SLOTS } from '../../charts/model/tokens';
import { RANK } from './ranges';
import type { RankKey } from '../../api/types';

/** Ranks by colour slot; null is a free slot. */
export type Selected = readonly (RankKey | null)[];

/** Return the slots after a click on a rank: it leaves its slot, or takes the preferred one or else the first free one. */
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

/** Return slots for ranks that are not selected: those that had a slot before keep it, so that colours do not move. */
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

/** Return the slots without the free ones at the end. */
export function trimmed(slots: Selected): (RankKey | null)[] {
  let length = slots.length;
  while (length > 0 && slots[length - 1] === null) length--;
  return slots.slice(0, length);
}

/** Parse slots such as `0:3,,1:12`: a text that is not a rank, or repeats one, leaves its slot free. */
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
