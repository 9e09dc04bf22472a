"""Census of a source of calls: how many it saw, and why some of them are not in its stream.

What records a program counts its calls itself, so that a call that gets lost on the way is missed. A source
says its census in metadata of the main thread of its stream, with the last step:

- ``CALLS_NOT_WRITTEN``: ``unwritten_text`` of the calls that it saw and did not write, by reason, in words
  that follow "calls" ("without room in the buffer of a thread"). It need not be there where all were written.
- ``CALLS_SEEN``: the ``text`` of a whole ``SourceCensus``. The writer of our own streams adds it, made of the
  calls that it wrote and of ``CALLS_NOT_WRITTEN``, where the source has not given it. Nobody adds it for a
  program that was killed, of whose last moments nothing is known.

A copy beside the stream is for a reader that does not come to the last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

CALLS_SEEN: Final = "Calls Seen"
CALLS_NOT_WRITTEN: Final = "Calls Not Written"
_SUFFIX: Final = ".calls"


class SourceCensus(msgspec.Struct, frozen=True):
    """Number of calls that a source saw begin, on all threads of a rank."""

    source: str
    """Name of what recorded them, in words: ``the recorder``."""
    seen: int
    unwritten: dict[str, int] = {}
    """Number of calls of them that it did not write, by reason."""

    def text(self) -> str:
        """Return it as the value of metadata."""
        return msgspec.json.encode(self).decode()

    def leave_beside(self, stream: Path) -> None:
        """Keep it beside a stream, for who cannot read that to its end; without room it is not kept."""
        with suppress(OSError):
            _beside(stream).write_text(self.text())


def parse_census(text: str | None) -> SourceCensus | None:
    """Return what a source has said; None of one that says nothing, or something else."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text or "", type=SourceCensus)
    return None


def census_beside(stream: Path) -> SourceCensus | None:
    """Return the census that a source has left beside its stream: it ended in order."""
    with suppress(OSError, UnicodeDecodeError):
        return parse_census(_beside(stream).read_text())
    return None


def unwritten_text(unwritten: Mapping[str, int]) -> str:
    """Return the value of ``CALLS_NOT_WRITTEN``."""
    return msgspec.json.encode(dict(unwritten)).decode()


def parse_unwritten(text: str | None) -> dict[str, int]:
    """Return the calls that a source did not write, by reason; nothing where it does not say."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text or "", type=dict[str, int])
    return {}


def _beside(stream: Path) -> Path:
    return stream.with_name(stream.name + _SUFFIX)
