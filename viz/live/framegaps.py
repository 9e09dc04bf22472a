"""Gaps in the frames of the parameter server, and the snapshots that make up for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from chimbuko.runtime.protocol.messages import Frame


class Knowledge(Enum):
    """State of what is known of one part of the server."""

    WHOLE = "whole"
    """All that its frames have told."""
    MISSED = "missed"
    """Frames were lost, and the server has not been asked yet."""
    ASKED = "asked"
    """The server has been asked for a snapshot, and has not answered."""


@dataclass
class _Part:
    state: Knowledge = Knowledge.WHOLE
    tick: int = 0
    """Number of the last frame."""
    least_tick: int = 0
    """Number of the last frame that was lost: an older snapshot does not make up for it."""
    is_last: bool = False


class FrameGaps:
    """Frames of each part of the parameter server: whether some are missing, and how they are made up for.

    ::

                  gap              ask                 answer
        WHOLE ──────────▶ MISSED ───────▶ ASKED ─────────────────▶ WHOLE
                            ▲               │  answer older than the last gap,
                            └───────────────┘  broker lost, or server started anew

    A further gap while the server is asked changes no state: most answers contain it, and one that does not
    is too old. A server that started anew counts from an earlier tick on: that is a gap, too, and the one
    that was asked is no more.

    Parameters
    ----------
    parts
        Number of parts of the parameter server that makes the frames.
    """

    def __init__(self, parts: int = 1) -> None:
        self._parts = [_Part() for _ in range(parts)]

    @property
    def is_last(self) -> bool:
        """Whether no frame follows."""
        return all(part.is_last for part in self._parts)

    def take(self, frame: Frame) -> bool:
        """Note a frame, and return whether any were lost before it."""
        part = self._parts[frame.part]
        is_gap = frame.tick != part.tick + 1
        if is_gap:
            self._miss(part, max(0, frame.tick - 1))
            if frame.tick <= part.tick:
                part.state = Knowledge.MISSED
        part.tick = frame.tick
        part.is_last = part.is_last or frame.is_last
        return is_gap

    def take_unknown(self) -> None:
        """Note something that is no frame: it may have been one of any part."""
        for part in self._parts:
            self._miss(part, part.tick)

    def ask(self) -> tuple[int, ...]:
        """Return the parts that are to be asked for a snapshot now, each once."""
        parts = self._in(Knowledge.MISSED)
        self._turn(parts, Knowledge.ASKED)
        return parts

    def asked(self) -> tuple[int, ...]:
        """Return the parts whose snapshots are awaited."""
        return self._in(Knowledge.ASKED)

    def answer(self, part: int, tick: int) -> bool:
        """Note a snapshot of a part as of a tick, and return whether it makes up for what was lost."""
        asked = self._parts[part]
        is_enough = tick >= asked.least_tick
        if asked.state is Knowledge.ASKED:
            asked.state = Knowledge.WHOLE if is_enough else Knowledge.MISSED
            asked.least_tick = 0 if is_enough else asked.least_tick
        return is_enough

    def forget_asking(self) -> tuple[int, ...]:
        """Note that the broker was lost, perhaps with what it was told; return the parts this is about."""
        parts = self.asked()
        self._turn(parts, Knowledge.MISSED)
        return parts

    def validate_state(self) -> None:
        """Raise AssertionError where the state is impossible."""
        for part in self._parts:
            assert part.tick >= 0 and part.least_tick >= 0, part
            assert part.state is not Knowledge.WHOLE or part.least_tick == 0, part

    def _miss(self, part: _Part, least_tick: int) -> None:
        # Not the largest: a server that starts anew may not come to that for long.
        part.least_tick = least_tick
        if part.state is Knowledge.WHOLE:
            part.state = Knowledge.MISSED

    def _in(self, state: Knowledge) -> tuple[int, ...]:
        return tuple(number for number, part in enumerate(self._parts) if part.state is state)

    def _turn(self, parts: Iterable[int], state: Knowledge) -> None:
        for part in parts:
            self._parts[part].state = state
