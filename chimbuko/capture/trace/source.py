"""Sources of the steps of a trace: the seam for other ways on which streams come.

A source gives the steps of one stream in TAU's layout (``core.traceschema``), whatever it reads: ADIOS2 over
SST, followed or recorded BP files (``ad.streams.sources``). One for another way makes the arrays of a
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
        """Return the number of steps that the writer has completed; None if only the writer knows."""

    def next_step(self, timeout_s: float | None) -> TraceStep | Waiting:
        """Return the next step, or why none came within ``timeout_s`` seconds; None: as long as is wise."""

    def give_back(self, first_step: int) -> None:
        """Give back the steps before this one, whose content is kept elsewhere by now."""

    def end(self) -> None:
        """Note that nobody writes any more, so that the steps that are there are all."""

    def close(self) -> None:
        """Close the source in order."""
