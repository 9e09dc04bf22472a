/** Selection of ranks by clicks, on every panel of the overview. */

import { toggleRank } from '../shared/address/model/slots';
import type { View } from '../shared/address/model/view';
import { go, view } from '../shared/address/address';
import { hasSelection, slots } from './steps/histories';
import { say } from '../shared/session/page';
import type { RankKey } from '../shared/api/types';

/** Select or deselect a rank, which keeps its colour. `also` changes in the same entry of the browser's history. */
export function toggle(key: RankKey, also: Partial<View> = {}): void {
  const before = view.value.selected;
  const slot = slots.value.indexOf(key);
  const after = toggleRank(hasSelection.value ? before : [], key, hasSelection.value ? null : Math.max(0, slot));
  if (after.length === before.length && after.every((rank, index) => rank === before[index])) {
    say('All 12 colours are taken: click a selected rank to deselect it.');
    go(also);
  } else go({ ...also, selected: after });
}

/** Select a rank that is not selected yet. */
export function choose(key: RankKey, also: Partial<View> = {}): void {
  if (view.value.selected.includes(key)) go(also);
  else toggle(key, also);
}
