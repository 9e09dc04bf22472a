import { search, type Frame, type Matches } from './model/frames';
import { matchesText } from './model/flamewords';
import { go, view } from '../shared/address/address';

/** Frames that match the search in the address; null without a search. */
export function searched(frames: readonly Frame[], zoomed: number): Matches | null {
  const { find } = view.value;
  return find.trim() === '' ? null : search(frames, find, zoomed);
}

/** Search for frames by a part of their name, with the sum of their times. */
export function Find({ frames, zoomed, matches }: { frames: readonly Frame[]; zoomed: number; matches: Matches | null }) {
  return (
    <>
      <label class="inline">
        Find
        <input
          class="wide"
          type="search"
          placeholder="part of a name"
          value={view.value.find}
          onInput={(event) => go({ find: event.currentTarget.value }, 'replace')}
        />
      </label>
      <span class="unit" role="status" data-found>
        {matches !== null && matchesText(matches, frames, zoomed)}
      </span>
    </>
  );
}
