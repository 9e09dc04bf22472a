"""Survey of a trace in JSON before it is read: what stands beside its events, wherever in the file.

PyTorch writes the time that all others count from behind the events, or before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from chimbuko.capture.formats.readers.jsontext import JsonText

KEPT_KEYS: Final[tuple[str, ...]] = ("distributedInfo", "baseTimeNanoseconds", "host_name")
"""Keys whose values a reader needs before the first event."""
MOST_KEYS_NAMED: Final = 6


class Survey(msgspec.Struct, frozen=True):
    """Layout of a text in JSON, as far as it could be read."""

    keys: tuple[str, ...] = ()
    """Keys of the outermost object, in their order; none of an array or of events alone."""
    has_events: bool = False
    is_whole: bool = False
    beside: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values of ``KEPT_KEYS`` that stand beside the events."""


def survey(pieces: Iterable[bytes]) -> Survey:
    """Go through a text, without a look at its events."""
    text = JsonText()
    for piece in pieces:
        text.feed(piece)
        if text.complaint or (text.has_events and not text.keys):
            # Nothing stands beside the events of an array.
            break
    keys = text.keys
    beside = {key: text.beside[key] for key in KEPT_KEYS if key in text.beside}
    return Survey(tuple(keys), text.has_events, text.is_whole, beside)


_REMEDIES: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (
        frozenset(("nodes", "samples", "timeDeltas")),
        "a CPU profile of V8, of samples without calls; "
        "'node --trace-event-categories v8,node app.js' writes Chrome's events, which are read here",
    ),
    (
        frozenset(("Event", "Spark Version")),
        "an event log of Spark, of tasks without calls; 'chimbuko trace' records a Python program, and "
        "convert_frame takes tasks as a table",
    ),
    (
        frozenset(("resourceSpans",)),
        "spans of OpenTelemetry; convert_frame takes spans as a table",
    ),
)
"""Keys by which a layout of another tool is known, and what to do about it."""


def stranger(found: Survey) -> str:
    """Say of a text that holds no events whose layout it has, and what would be readable; empty if it has
    events, or may yet get some.
    """
    if found.has_events or not (found.is_whole or _remedy(found)):
        return ""
    shown = ", ".join(found.keys[:MOST_KEYS_NAMED]) + (", …" if len(found.keys) > MOST_KEYS_NAMED else "")
    has = f"but {shown}" if shown else "and nothing else"
    said = _remedy(found) or "no layout that is known here; convert_frame takes calls as a table"
    return f"it has no traceEvents, {has}: {said}"


def _remedy(found: Survey) -> str:
    keys = set(found.keys)
    return next((text for needed, text in _REMEDIES if needed <= keys), "")
