"""Census of a source of calls: how many it saw, and why some of them are not in its stream.

What records a program counts its calls itself, so that a call that gets lost on the way is missed. A source
says its census in metadata of the main thread of its stream, with the last step:

- ``CALL_COUNTS``: a JSON object with the number of calls that were ``recorded``, and of those that were not
  by reason, in words that follow "calls" ("for which there was no room"); not needed where all were recorded.
  Functions of which, for a time, not even the number of calls is known are counted as ``UNCOUNTED``.
- ``CALLS_SEEN``: the ``text`` of a whole ``SourceCensus``. The writer of our own streams adds it, made of the
  calls that it wrote and of ``CALL_COUNTS``, where the source has not given it. Nobody adds it for a program
  that was killed, of whose last moments nothing is known, or where something was lost that nobody counted.

A copy beside the stream is for a reader that does not come to the last step.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

CALLS_SEEN: Final = "Calls Seen"
CALL_COUNTS: Final = "Calls Counted"
LEFT_OUT: Final = "left out on purpose"
"""Reason of calls that a source did not write because it was to leave out their functions; they are not lost.
"""
UNCOUNTED: Final = "functions not always counted"
"""Number of functions that were left out, and whose calls were not counted all of the time."""
NOT_WRITTEN: Final = "recorded, and lost before they were written"
_SUMS: Final = frozenset(("seen", "recorded", UNCOUNTED))
"""Keys of counts that are no reasons."""
_SUFFIX: Final = ".calls"


class SourceCensus(msgspec.Struct, frozen=True, omit_defaults=True):
    """Number of calls that a source saw begin, on all threads of a rank."""

    source: str
    """Recorder of the calls, in words: ``the recorder``."""
    seen: int
    unwritten: dict[str, int] = {}
    """Number of calls that the source saw and did not write, by reason."""
    uncounted: int = 0
    """Number of functions that the source left out; it did not see all of their calls."""

    def text(self) -> str:
        """Return the census as the value of metadata."""
        return msgspec.json.encode(self).decode()

    def leave_beside(self, stream: Path) -> None:
        """Keep the census beside a stream, for readers that cannot read that to its end; not without room."""
        with suppress(OSError):
            _beside(stream).write_text(self.text())


def parse_census(text: str | None) -> SourceCensus | None:
    """Return what a source has said; None of one that says nothing, or something else."""
    if text is None:
        return None
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=SourceCensus)
    return None


def census_beside(stream: Path) -> SourceCensus | None:
    """Return the census that a source has left beside its stream: it ended in order."""
    with suppress(OSError, UnicodeDecodeError):
        return parse_census(_beside(stream).read_text())
    return None


def census_from(source: str, counts: str | None, written: int) -> SourceCensus:
    """Return the census of a source that has counted what it recorded, and what it did not.

    Parameters
    ----------
    written
        Number of calls that are in its stream.
    counts
        Value of ``CALL_COUNTS``; None of a source that has none.
    """
    known: dict[str, int] = {}
    with suppress(msgspec.MsgspecError):
        known = msgspec.json.decode(counts or "{}", type=dict[str, int])
    reasons = {reason: number for reason, number in known.items() if number and reason not in _SUMS}
    lost = known.get("recorded", 0) - written
    unwritten = reasons | ({NOT_WRITTEN: lost} if lost > 0 else {})
    return SourceCensus(source, written + sum(unwritten.values()), unwritten, known.get(UNCOUNTED, 0))


def _beside(stream: Path) -> Path:
    return stream.with_name(stream.name + _SUFFIX)
