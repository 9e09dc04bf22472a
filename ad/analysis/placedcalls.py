"""Long calls that stand where long calls always stand: a step of a pattern that has more to do loses nothing.

Of eleven calls that a solver makes for the regions of its domain, the last takes sixty times as long, as its
region has so much more work. A delay hits now this call, and now that one.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import BoolArray, Float64Array, Int64Array, Rows, distinct

MUCH = 4.0
"""Least factor between a long call and the median of its function: half of that between two modes."""
LEAST_LONG = 3
"""Least number of long calls of a step by which a place can be known."""
MOST_SHARE = 0.5
"""Most calls of a step that are long: a step that is slow as a whole says nothing of places."""
OF_PLACE = 0.8
"""Share of the calls at a place that are long where long ones stand."""
MOST_LAGS = 3
"""Most long calls in one turn of a pattern."""


def placed(calls: Rows, runtimes_us: Float64Array, carried: int) -> tuple[int, int]:
    """Return how many calls of a function were long in a step, and how many of these stood where long ones
    always stand: none where this cannot be told.

    Parameters
    ----------
    calls
        Calls of the function in the order in which they began, ``CALL`` rows.
    runtimes_us
        Their judged runtimes, float64[calls]; -1 where a call is not judged.
    carried
        Number of calls of the step, of all functions, that began in an earlier one.
    """
    judged_us = np.sort(runtimes_us[runtimes_us >= 0])
    if len(judged_us) <= LEAST_LONG:
        return 0, 0
    is_long = runtimes_us >= max(1.0, MUCH * judged_us[len(judged_us) // 2])
    count = int(is_long.sum())
    if not LEAST_LONG <= count <= MOST_SHARE * len(calls):
        return 0, 0
    # Of a caller that began earlier it is not known how many calls it had made before.
    by_caller = np.argsort(calls["parent"], kind="stable")
    by_caller = by_caller[calls["parent"][by_caller] >= max(carried, NONE + 1)]
    found = _at_places(_within(calls["parent"][by_caller]), is_long[by_caller])
    of_threads = [is_long[calls["thread"] == thread] for thread in distinct(calls["thread"]).tolist()]
    return count, max(found, sum(map(_at_turns, of_threads)))


def _within(groups: Int64Array) -> Int64Array:
    """Return the place of each element within its group; the elements of a group stand together."""
    at = np.arange(len(groups))
    is_first = np.append(True, groups[1:] != groups[:-1])[: len(groups)]
    place: Int64Array = at - np.maximum.accumulate(np.where(is_first, at, 0))
    return place


def _at_places(places: Int64Array, is_long: BoolArray) -> int:
    """Return how many long calls stand at places where hardly any other call stands."""
    calls, long = np.bincount(places), np.bincount(places[is_long], minlength=places.max(initial=-1) + 1)
    return int(long[(long >= LEAST_LONG) & (long >= OF_PLACE * calls)].sum())


def _at_turns(is_long: BoolArray) -> int:
    """Return how many long calls of a thread stand at the same steps of a pattern that it goes through again
    and again.
    """
    at = is_long.nonzero()[0]
    # Long calls in a row are no turns: what disturbs a thread for a while makes such, too.
    begins = at[np.append(True, np.diff(at) > 1)[: len(at)]]
    places, found = np.arange(len(is_long)), 0
    for lag in range(1, min(1 + MOST_LAGS, len(begins))):
        ((length, _),) = Counter((begins[lag:] - begins[:-lag]).tolist()).most_common(1)
        found = max(found, _at_places(places % length, is_long))
    return found
