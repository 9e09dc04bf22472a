"""Sources of the steps of a trace: the seam for other ways on which streams come.

A source gives the steps of one stream in TAU's layout (``core.traceschema``), whatever it reads: ADIOS2 over
SST, followed or recorded BP files (``ad.streamprocess.sources``). One for another way makes the arrays of a
step, and names in ``StreamNames``, of what it reads. Files of other tools, which hold many processes in any
order, become such streams beforehand (``capture.formats``); from there on nobody knows the difference.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from chimbuko.core.traceschema import StreamNames, TraceStep


class Waiting(Enum):
    """Why there is no step."""

    NOT_READY = "not ready"
    END = "end of stream"
    BROKEN = "stream broken"


class TraceSource(Protocol):
    """Steps of one stream, in order."""

    names: StreamNames
    is_joining: bool
    """A death of this process would now take the writer with it, or hold it up for ever."""

    @property
    def written_steps(self) -> int | None:
        """Return the number of steps that the writer has completed; None where only the writer knows."""

    def next_step(self, timeout_s: float | None) -> TraceStep | Waiting:
        """The next step, or why there is none within ``timeout_s`` seconds; None for as long as is wise."""

    def give_back(self, first_step: int) -> None:
        """All that steps before this one have brought is kept: nobody will ask for them again."""

    def end(self) -> None:
        """Nobody writes any more: what is there is all."""

    def close(self) -> None:
        """Let go of it in order."""
