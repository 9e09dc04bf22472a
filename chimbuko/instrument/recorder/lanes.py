"""Separation of the events of a thread by its lanes: the stacks on which it ran, as of coroutines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chimbuko.core.arrays import BoolArray, Int64Array
from chimbuko.instrument.recorder.layout import LEFT_EARLIER, Kind
from chimbuko.instrument.recorder.ring import Events


class Lanes:
    """Lanes of one ring, whose events are taken piece by piece.

    Parameters
    ----------
    own
        Number of the lane of the thread's own stack.
    """

    def __init__(self, own: int) -> None:
        self._present = own
        self._last_ns: dict[int, int] = {}
        """Time of the last event of each lane."""

    def split(self, events: Events) -> Iterator[tuple[int, Events]]:
        """Yield the number and the events of each lane, in order of time."""
        kinds = events["kind"]
        says_lane = (kinds <= Kind.EXIT) | (kinds == Kind.LANE)
        lanes = _filled(events["tag"].astype(np.int64), says_lane, self._present)
        self._present = int(lanes[-1])
        is_kept = kinds != Kind.LANE
        for lane in np.unique(lanes[is_kept]).tolist():
            of_lane = events[is_kept & (lanes == lane)]
            is_earlier = (of_lane["kind"] == Kind.EXIT) & (of_lane["request"] == LEFT_EARLIER)
            if is_earlier.any():
                last_ns = self._last_ns.get(lane, int(of_lane["time_ns"][0]))
                of_lane["time_ns"] = _filled(of_lane["time_ns"], ~is_earlier, last_ns)
            self._last_ns[lane] = int(of_lane["time_ns"][-1])
            yield lane, of_lane


class NativeThreads:
    """Threads that have one ring, one after the other, by the numbers that the system gives them.

    Parameters
    ----------
    first
        Number of the thread that is known to have it.
    """

    def __init__(self, first: int) -> None:
        self._present = first

    def split(self, events: Events) -> Iterator[tuple[int, Events]]:
        """Yield the number and the events of each thread, in order of time."""
        is_new = (events["kind"] == Kind.LANE) & (events["value"] > 0)
        threads = _filled(events["value"].astype(np.int64), is_new, self._present)
        self._present = int(threads[-1])
        is_kept = events["kind"] != Kind.LANE
        for thread in np.unique(threads[is_kept]).tolist():
            yield thread, events[is_kept & (threads == thread)]


def _filled(values: Int64Array, is_known: BoolArray, first: int) -> Int64Array:
    """Return the values with each unknown one as the last known one before it."""
    places = np.maximum.accumulate(np.where(is_known, np.arange(len(values)), -1))
    return np.where(places >= 0, values[places], first)
