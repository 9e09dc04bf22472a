"""Balance of the threads of OpenMP's regions: which of them come last to barriers, by their rings.

All threads of a region note the same number when they come to a barrier. Each has worked from the begin of
its part of the region, which the master notes with that, or from the end of the barrier before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from chimbuko.core.arrays import BoolArray, Int64Array
from chimbuko.core.statistics.latethreads import LateThread
from chimbuko.instrument.recorder.layout import (
    CONSTRUCT_SHIFT,
    CONSTRUCTS,
    OPENMP,
    OPENMP_COMMUNICATOR,
    Kind,
)
from chimbuko.instrument.recorder.ring import Events

LEAST_RATIO = 1.2
"""Factor by which a thread must have worked longer than the mean of the others to be the slow one of a
region: threads that do the same differ by a tenth.
"""
LEAST_SHARE = 0.6
"""Share of a place's regions in which it must be the same thread: of two, chance alone makes a half."""
LEAST_REGIONS = 20
LEAST_LOST_US = 10_000
MOST_PLACES = 20
ROUNDS = 2
"""Number of takes for which the other threads of a barrier are waited for: a worker writes its wait for the
end of a region when it comes to the next one.
"""

_ROW = np.dtype(
    [("number", "<i8"), ("thread", "<i8"), ("worked_ns", "<i8"), ("place", "<u8"), ("age", "<i8")]
)
_KIND_BITS = np.uint64(CONSTRUCT_SHIFT)
_PARALLEL, _BARRIER = (
    np.uint64(OPENMP >> CONSTRUCT_SHIFT | CONSTRUCTS.index(name)) for name in ("parallel", "barrier")
)


class ThreadBalance:
    """Balance of the threads of one process, whose events come piece by piece."""

    def __init__(self) -> None:
        self._started_ns: dict[int, int] = {}
        self._at: dict[int, int] = {}
        self._waiting = np.empty(0, _ROW)
        self._regions: dict[int, int] = defaultdict(int)
        self._threads: dict[int, int] = defaultdict(int)
        self._slow: dict[tuple[int, int], Any] = defaultdict(lambda: np.zeros(3))
        """Number of times that a thread was slow at a place, sum of logarithms of by how much, ns lost."""

    def note(self, thread: int, events: Events) -> None:
        """Take events of one thread, in order of time."""
        kinds, keys, times = events["kind"], events["value"], events["time_ns"]
        is_call = kinds <= Kind.EXIT
        construct = np.where(is_call, keys >> _KIND_BITS, np.uint64(0))
        is_barrier = construct == _BARRIER
        is_start = (construct == _PARALLEL) & (kinds == Kind.ENTRY) | is_barrier & (kinds == Kind.EXIT)
        came = (kinds == Kind.OPERATION) & (events["communicator"] == OPENMP_COMMUNICATOR)
        if not (is_start | came | is_barrier).any():
            return
        started = _carried(times.astype(np.int64), is_start, self._started_ns.get(thread, -1))
        place = _carried(keys.view(np.int64), is_barrier & (kinds == Kind.ENTRY), self._at.get(thread, 0))
        self._started_ns[thread], self._at[thread] = int(started[-1]), int(place[-1])
        came &= (started >= 0) & (place != 0)
        rows = np.zeros(int(came.sum()), _ROW)
        rows["number"], rows["thread"] = events["tag"][came], thread
        # To wake the others takes the master a while, which is no work.
        begun = events["value"][came].astype(np.int64)
        rows["worked_ns"] = times[came] - np.where(begun > 0, begun, started[came])
        rows["place"] = place[came].view(np.uint64)
        self._waiting = np.concatenate((self._waiting, rows))

    def close(self, is_last: bool = False) -> None:
        """Count the barriers whose threads have all had time to tell; all of them at the end."""
        rows = self._waiting
        if not len(rows):
            return
        rows["age"] += 1
        numbers, inverse = np.unique(rows["number"], return_inverse=True)
        oldest = np.zeros(len(numbers), np.int64)
        np.maximum.at(oldest, inverse, rows["age"])
        is_ripe = (oldest > ROUNDS)[inverse] | is_last
        self._waiting = rows[~is_ripe]
        self._count(rows[is_ripe])

    def late_threads(self, name_of: Callable[[int], str]) -> list[LateThread]:
        """Return the threads that are slow again and again, those for which others waited longest first.

        Parameters
        ----------
        name_of
            Function that gives the name of the calls with a key.
        """
        self.close(is_last=True)
        found: list[tuple[float, int, LateThread]] = []
        for (place, thread), (times, logarithms, lost_ns) in self._slow.items():
            regions = self._regions[place]
            is_often = regions >= LEAST_REGIONS and times >= LEAST_SHARE * regions
            if is_often and lost_ns >= 1e3 * LEAST_LOST_US:
                ratio, lost_us = float(np.exp(logarithms / times)), float(lost_ns) / 1e3
                share, count = float(times) / regions, self._threads[place]
                found.append((lost_us, place, LateThread("", thread, count, regions, share, ratio, lost_us)))
        found.sort(key=lambda one: -one[0])
        return [replace(one, barrier=name_of(place)) for _, place, one in found[:MOST_PLACES]]

    def _count(self, rows: Any) -> None:
        rows = rows[np.lexsort((rows["worked_ns"], rows["number"]))]
        is_last = np.append(rows["number"][1:] != rows["number"][:-1], True)[: len(rows)]
        (ends,) = np.nonzero(is_last)
        counts = np.diff(ends, prepend=-1)
        sums = np.add.reduceat(rows["worked_ns"], ends - counts + 1) if len(ends) else np.empty(0, np.int64)
        for end, count, sum_ns in zip(ends.tolist(), counts.tolist(), sums.tolist(), strict=True):
            if count < 2:
                continue
            _, thread, worked_ns, place, _ = rows[end].tolist()
            self._regions[place] += 1
            self._threads[place] = max(self._threads[place], count)
            others_ns = max(1.0, (sum_ns - worked_ns) / (count - 1))
            if worked_ns >= LEAST_RATIO * others_ns:
                lost_ns = (count - 1) * (worked_ns - others_ns)
                self._slow[place, thread] += (1, np.log(worked_ns / others_ns), lost_ns)


def _carried(values: Int64Array, is_known: BoolArray, first: int) -> Int64Array:
    """Return the values with each unknown one as the last known one before it."""
    places = np.maximum.accumulate(np.where(is_known, np.arange(len(values)), -1))
    found: Int64Array = np.where(places >= 0, values[places], first)
    return found
