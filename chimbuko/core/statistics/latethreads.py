"""Threads that are slow again and again, as our recorder says in the metadata of a stream."""

from __future__ import annotations

from typing import Final

import msgspec

LATE_THREADS: Final = "Late Threads"
"""Key of metadata of our recorder: threads of OpenMP that come last to the same barriers, as JSON."""


class LateThread(msgspec.Struct, frozen=True):
    """Thread that comes last to a barrier again and again."""

    barrier: str
    """Name of the barrier's calls, as the trace has it."""
    thread: int
    threads: int
    regions: int
    """Number of times that threads met at this barrier."""
    share: float
    """Share of these in which this thread was the slow one."""
    ratio: float
    """Factor by which it worked longer then than the mean of the others."""
    lost_us: float
    """Time for which the others waited for it then, of all of them together."""


def encode_late_threads(found: list[LateThread]) -> str:
    """Return the text of such threads in metadata."""
    return msgspec.json.encode(found).decode()


def decode_late_threads(text: str) -> list[LateThread]:
    """Return the threads of a text in metadata; none of a damaged one."""
    try:
        return msgspec.json.decode(text, type=list[LateThread])
    except msgspec.MsgspecError:
        return []
