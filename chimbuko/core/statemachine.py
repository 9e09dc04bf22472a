"""Story of a state machine: why it did what it did, in its last steps."""

from __future__ import annotations

from collections import deque

import msgspec

MOST_KEPT = 200


class Entry(msgspec.Struct, frozen=True):
    """One step of a story."""

    time_s: float
    """Time on the clock that the machine's events carry, in seconds."""
    event: str
    result: str
    """Instructions and changes of state that the event led to, in a few words."""


class Story:
    """The last steps of a state machine, the oldest first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._entries: deque[Entry] = deque(maxlen=most)

    def note(self, time_s: float, event: str, result: str) -> None:
        """Add a step; the oldest one goes where there are too many."""
        self._entries.append(Entry(time_s, event, result))

    def lines(self) -> list[str]:
        """Return a line for each step, for people."""
        return [f"{entry.time_s:12.3f} s  {entry.event}: {entry.result}" for entry in self._entries]
