"""Flows between events: those from one process to another are messages."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

from chimbuko.capture.formats.readers.events import Dropped, Kind, Row

MOST_OPEN: Final = 1 << 18
"""Flows whose other end has not come; the oldest are given up."""

End = tuple[int, int, int]
"""Time in ns, track and process."""


class Flows:
    """Pairs the ends of flows, in the order in which they come.

    Parameters
    ----------
    losses
        Added to.
    """

    def __init__(self, losses: Counter[str]) -> None:
        self._losses = losses
        self._begun: OrderedDict[int, End] = OrderedDict()
        self._ended: OrderedDict[int, End] = OrderedDict()
        self._joined: OrderedDict[int, End] = OrderedDict()
        self._passed: set[int] = set()
        """Flows in ``_begun`` whose beginning has met an end: they may end there."""

    def put(self, identity: int, phase: str, here: End, tag: int, size_bytes: int) -> list[Row]:
        """Take one end of a flow: ``s`` begins a flow, ``t`` ends one and begins the next, ``f`` ends one.

        What it makes known: a message that was sent, and received.
        """
        rows: list[Row] = []
        begin = None
        if phase != "s":
            begin = self._begun.pop(identity, None)
            self._passed.discard(identity)
            if begin is not None:
                rows = self._message(begin, here, tag, size_bytes)
            else:
                # Events that are written when they end may come before those that they depend on.
                self._keep(self._ended, identity, here)
        if phase != "f":
            end = self._ended.pop(identity, None) if phase == "s" else None
            if end is not None:
                rows += self._message(here, end, tag, size_bytes)
            else:
                self._keep(self._begun, identity, here)
                if begin is not None:
                    self._passed.add(identity)
        return rows

    def join(self, identity: int, here: End, tag: int, is_last: bool) -> list[Row]:
        """Take one end of a flow that goes through any number of events, of which none is said to be the
        first.

        What it makes known: a message from the event before it, by time.
        """
        before = self._joined.pop(identity, None) or self._begun.pop(identity, None)
        if before is None:
            self._keep(self._begun, identity, here)
            return []
        if not is_last:
            self._joined[identity] = here
            if len(self._joined) > MOST_OPEN:
                self._joined.popitem(last=False)
        return self._message(min(before, here), max(before, here), tag, 0)

    def finish(self) -> None:
        """Count what has no other end."""
        self._lose(len(self._begun) + len(self._ended) - len(self._passed))

    def _message(self, begin: End, end: End, tag: int, size_bytes: int) -> list[Row]:
        if begin[2] == end[2]:
            self._losses[Dropped.WITHIN] += 1
            return []
        return [
            (begin[0], size_bytes, end[2], begin[1], tag, Kind.SEND),
            (end[0], size_bytes, begin[2], end[1], tag, Kind.RECEIVE),
        ]

    def _keep(self, ends: OrderedDict[int, End], identity: int, here: End) -> None:
        given_up = [identity] if identity in ends else []
        ends[identity] = here
        if len(ends) > MOST_OPEN:
            given_up.append(ends.popitem(last=False)[0])
        self._lose(sum(one not in self._passed for one in given_up))
        self._passed.difference_update(given_up)

    def _lose(self, count: int) -> None:
        if count:
            self._losses[Dropped.ONE_END] += count
