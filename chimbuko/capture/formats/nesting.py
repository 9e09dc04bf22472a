"""Makes calls of events of tracks: on each thread of a stream calls nest, whatever a trace says.

A track becomes a thread, its first lane; a call that begins within another one and ends after it, as
asynchronous ones do, goes to a further lane, which is a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from chimbuko.capture.formats.readers.dropped import Dropped
from chimbuko.capture.formats.readers.events import NO_NAME, Catalogue, TrackKind

TOLERANCE_NS: Final = 1000
"""Time in ns by which a call may end after the one that contains it: times of traces are rounded to 1 µs."""
MOST_LANES: Final = 256
NEVER: Final = 1 << 63

Edge = tuple[int, int, int, int]
"""Time in ns, 0 for ENTRY or 1 for EXIT, lane and name."""


class Open(msgspec.Struct):
    """A call that has begun."""

    name: int
    end_ns: int
    """``NEVER`` where that is not known yet."""
    of: int


class Lane(msgspec.Struct):
    """A thread of the stream."""

    number: int
    stack: list[Open] = msgspec.field(default_factory=list)
    ending: int = 0
    """Calls in it whose end is known."""


class TrackCalls:
    """The open calls of one track, across the steps of a stream.

    Parameters
    ----------
    new_lane
        Gives a lane its number.
    """

    def __init__(self, catalogue: Catalogue, kind: TrackKind, new_lane: Callable[[], int]) -> None:
        self._losses = catalogue.losses
        self._is_asynchronous = kind is TrackKind.ASYNCHRONOUS
        self._new_number = new_lane
        self._lanes = [Lane(new_lane())]
        self._lane_of: dict[int, Lane] = {}

    @property
    def first_lane(self) -> int:
        """Lane of the track's counters and messages."""
        return self._lanes[0].number

    def begin(self, time_ns: int, name: int, of: int, edges: list[Edge]) -> None:
        """Begin a call whose end is not known."""
        self.pass_to(time_ns, edges)
        lane = self._lanes[0] if not self._is_asynchronous else self._lane_of.get(of) or self._empty_lane()
        if self._is_asynchronous:
            self._lane_of[of] = lane
        self._enter(lane, Open(name, NEVER, of), time_ns, edges)

    def end(self, time_ns: int, name: int, of: int, edges: list[Edge]) -> None:
        """End the innermost call of that name, and all calls in it."""
        self.pass_to(time_ns, edges)
        lane = self._lane_of.get(of) if self._is_asynchronous else self._lanes[0]
        stack = lane.stack if lane is not None else []
        at = next((at for at in reversed(range(len(stack))) if _is_ended(stack[at], name)), None)
        if at is None or lane is None:
            self._losses[Dropped.NOT_BEGUN] += 1
            return
        edges.append((time_ns, 1, lane.number, stack[at].name))
        lane.ending -= sum(call.end_ns != NEVER for call in stack[at:])
        del stack[at:]
        if not stack:
            self._lane_of.pop(of, None)

    def call(self, time_ns: int, end_ns: int, name: int, of: int, edges: list[Edge]) -> None:
        """Take a whole call."""
        self.pass_to(time_ns, edges)
        for lane in self._lanes:
            around_ns = lane.stack[-1].end_ns if lane.stack else NEVER
            if end_ns <= around_ns + TOLERANCE_NS and not (self._is_asynchronous and lane.stack):
                self._enter(lane, Open(name, min(end_ns, around_ns), of), time_ns, edges)
                return
        self._enter(self._new_lane(), Open(name, end_ns, of), time_ns, edges)

    def pass_to(self, time_ns: int, edges: list[Edge]) -> None:
        """Advance to a time, and end the calls whose end is known and before it."""
        for lane in self._lanes:
            while lane.ending:
                stack = lane.stack
                at = len(stack) - 1
                while stack[at].end_ns == NEVER:
                    at -= 1
                if stack[at].end_ns > time_ns:
                    break
                edges.append((stack[at].end_ns, 1, lane.number, stack[at].name))
                lane.ending -= 1
                del stack[at:]

    def _enter(self, lane: Lane, call: Open, time_ns: int, edges: list[Edge]) -> None:
        lane.stack.append(call)
        lane.ending += call.end_ns != NEVER
        edges.append((time_ns, 0, lane.number, call.name))

    def _empty_lane(self) -> Lane:
        return next((lane for lane in self._lanes if not lane.stack), None) or self._new_lane()

    def _new_lane(self) -> Lane:
        if len(self._lanes) >= MOST_LANES:
            self._losses[Dropped.MANY_LANES] += 1
            return self._lanes[-1]
        self._lanes.append(Lane(self._new_number()))
        return self._lanes[-1]


def _is_ended(call: Open, name: int) -> bool:
    return call.end_ns == NEVER and name in (NO_NAME, call.name)
