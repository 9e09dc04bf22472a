"""Greenlets, those of gevent and eventlet too: several stacks on one thread, each with a number, recorded
as its own.

While others run, a greenlet is in a call of ``greenlet.switch``, so that their time is not its own.
"""

from __future__ import annotations

import sys
import weakref
from time import perf_counter_ns

from chimbuko.instrument.hooks.codes import SWITCHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


SWITCH_NAME = "greenlet.switch"
_LOOP = "Hub"
"""Name of gevent's class of the greenlet that only chooses the next one: it waits for nothing."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chimbuko.instrument.hooks.functions import Recorder


def watch_greenlets(recorder: Recorder) -> None:
    """Note from now on when the calling thread goes on with another greenlet, if the program has any."""
    module = sys.modules.get("greenlet")
    # It may be in the middle of its import.
    if hasattr(module, "settrace") and not hasattr(recorder.of_thread, "greenlets"):
        recorder.of_thread.greenlets = Greenlets(recorder, module)


class Greenlets:
    """Greenlets of one thread, and their lanes.

    Parameters
    ----------
    recorder
        Recorder of the switches.
    module
        Module ``greenlet``.
    """

    def __init__(self, recorder: Recorder, module: Any) -> None:
        self._recorder = recorder
        buffer = recorder.buffer()
        self._own = buffer.number
        self._extend = buffer.events.extend
        self._lanes: dict[int, int] = {}
        self._known: dict[int, weakref.ref[Any]] = {}
        self._pool = buffer.lanes
        self._waiting: set[int] = set()
        self._code = recorder.timer_code(SWITCH_NAME)
        current = module.getcurrent()
        if current.parent is not None:
            self._pool.current = self._lane(current)
            self._extend((SWITCHED - self._pool.current, perf_counter_ns()))
        self._others = module.settrace(self._note)

    def _note(self, event: str, greenlets: tuple[Any, Any]) -> None:
        origin, target = greenlets
        if self._recorder.is_recording:
            self._switch(origin, target, perf_counter_ns())
        if self._others is not None:
            self._others(event, greenlets)

    def _switch(self, origin: Any, target: Any, now: int) -> None:
        lane = self._pool.current = self._lane(target)
        rows: tuple[int, ...] = (SWITCHED - lane, now)
        if origin.dead:
            self._forget(id(origin))
        elif self._code >= 0 and type(origin).__name__ != _LOOP:
            self._waiting.add(self._lane(origin))
            rows = (self._code, now, *rows)
        if lane in self._waiting:
            self._waiting.discard(lane)
            rows = (*rows, self._code + 1, now)
        self._extend(rows)

    def _lane(self, greenlet: Any) -> int:
        lane = self._lanes.get(id(greenlet))
        if lane is None:
            lane = self._own if greenlet.parent is None else self._new_lane(greenlet)
        return lane

    def _new_lane(self, greenlet: Any) -> int:
        key = id(greenlet)
        lane = self._pool.take()
        self._known[key] = weakref.ref(greenlet, lambda _: self._forget(key))
        self._lanes[key] = lane
        return lane

    def _forget(self, key: int) -> None:
        self._known.pop(key, None)
        lane = self._lanes.pop(key, None)
        if lane is not None:
            self._waiting.discard(lane)
            self._pool.free.append(lane)


class LanePool:
    """Numbers of the stacks that take turns on one thread, besides its own, each as long as a stack lives.

    Parameters
    ----------
    own
        Number of the thread.
    new
        Function that returns a number that no other stack has.
    """

    def __init__(self, own: int, new: Callable[[], int]) -> None:
        self.current = own
        """Number of the greenlet that runs, or of the thread."""
        self.free: list[int] = []
        self.numbers: list[int] = []
        """All numbers that were ever taken."""
        self._new = new

    def take(self) -> int:
        """Take a number."""
        if self.free:
            return self.free.pop()
        number = self._new()
        self.numbers.append(number)
        return number
