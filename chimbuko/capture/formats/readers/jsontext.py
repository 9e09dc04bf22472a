"""Takes a trace in JSON apart as it comes: a survey of what stands beside its events, and the events one by
one.

The text is an array of events, or an object that has one as ``traceEvents``, or events alone, one behind the
other. Each may lack its end, as of a program that was killed or goes on.

A kernel finds the ends of events, and msgspec decodes them many at a time: 90 MB per CPU-second of a Chrome
trace of 200 MB, where ijson 3.6 (yajl2_c) gives 29, in the same memory. ijson also ends at the first event
that is damaged (a NaN, bytes that are no UTF-8, stray text), of which a trace should lose that event only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec
import numpy as np

from chimbuko.core.kernels.jsonobjects import (
    COUNT,
    ENDED,
    INCOMPLETE,
    NEXT,
    PROGRESS_CELLS,
    STRAY,
    find_objects,
    value_end,
)

EVENTS_KEY: Final = "traceEvents"
PHASE_KEY: Final = "ph"
"""Key that an outermost object has that is itself an event, the first of many."""
MOST_EVENT_BYTES: Final = 4 << 20
"""Most bytes of one event; what does not end by then is no event."""
MOST_VALUE_BYTES: Final = 64 << 20
"""Most bytes of a value that stands beside the events."""
MOST_AT_ONCE: Final = 1 << 16
MOST_KEYS: Final = 1000
"""Maximum number of keys of the outermost object that are remembered."""
_SPACE: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"


class _State(Enum):
    BEGIN = "before the first bracket"
    KEY = "before a key of the outermost object"
    VALUE = "before its value"
    EVENTS = "among the events"
    END = "behind the end"


class JsonText:
    """The state of taking one text apart.

    After ``feed`` and ``finish`` say in ``complaint`` why nothing further can be understood.
    """

    def __init__(self) -> None:
        self.beside: dict[str, Any] = {}
        """Values that stand beside the events, by key, as far as they came."""
        self.keys: list[str] = []
        """Keys of the outermost object, as they came; that of a value that is not complete is one of them."""
        self.has_events = False
        """Whether an array of events has begun, or events have come without one."""
        self.complaint = ""
        self.stray = 0
        """Pieces between events that are none."""
        self.is_whole = False
        """Whether the last bracket of the text has come."""
        self._state = _State.BEGIN
        self._is_object = False
        self._key = ""
        self._rest = b""
        self._at = 0
        """Bytes that were taken apart so far."""
        self._bounds = np.empty((MOST_AT_ONCE, 2), np.int64)

    def feed(self, data: bytes) -> list[bytes]:
        """Take in the next bytes; the events that are complete now, each as its own text."""
        events: list[bytes] = []
        text, self._rest = self._rest + data, b""
        at = 0
        while at < len(text) and not self.complaint:
            before = at, self._state
            if self._state is _State.EVENTS:
                at = self._take_events(text, at, events)
            elif self._state is _State.END:
                at = self._take_behind(text, at)
            else:
                at = self._take_beside(text, at, events)
            if (at, self._state) == before:
                break
        self._at += at
        self._rest = text[at:]
        most = MOST_EVENT_BYTES if self._state is _State.EVENTS else MOST_VALUE_BYTES
        if len(self._rest) > most and not self.complaint:
            self.complaint = f"what begins at byte {self._at:,} does not end"
        if self.complaint:
            self._rest = b""
        return events

    def finish(self) -> None:
        """Note that no more bytes will come."""
        if self.complaint:
            return
        if self._state is _State.BEGIN:
            self.complaint = "there is nothing in it"
        elif self._rest.strip(_SPACE + b","):
            self.complaint = f"it ends within what begins at byte {self._at:,}"

    def _take_events(self, text: bytes, at: int, events: list[bytes]) -> int:
        bytes_ = np.frombuffer(text, np.uint8)
        progress = np.zeros(PROGRESS_CELLS, np.int64)
        progress[NEXT] = at
        find_objects(bytes_, self._bounds, progress)
        count, at, has_ended, stray = progress.tolist()
        assert (COUNT, NEXT, ENDED, STRAY) == (0, 1, 2, 3)
        events += [text[begin:end] for begin, end in self._bounds[:count].tolist()]
        self.stray += stray
        if has_ended:
            self._state = _State.KEY if self._is_object else _State.END
            self.is_whole = self._state is _State.END
        return int(at)

    def _take_behind(self, text: bytes, at: int) -> int:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if at < len(text):
            self.complaint = f"at byte {self._at + at:,} there is more, behind its end"
        return at

    def _take_beside(self, text: bytes, at: int, events: list[bytes]) -> int:
        """One token of what is around the events; ``at`` again where it is not complete."""
        if self._state is _State.BEGIN and text.startswith(_BOM):
            at = max(at, len(_BOM))
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if at == len(text):
            return at
        byte = text[at : at + 1]
        if self._state is _State.BEGIN:
            if byte not in b"[{":
                self.complaint = f"it begins with {text[at : at + 20]!r}, which is no trace in JSON"
            self._is_object = byte == b"{"
            self._state = _State.KEY if self._is_object else _State.EVENTS
            self.has_events = not self._is_object
            return at + 1
        if self._state is _State.KEY:
            return self._take_key(text, at, byte, events)
        if byte == b"[" and self._key == EVENTS_KEY:
            self._state, self.has_events = _State.EVENTS, True
            return at + 1
        end = int(value_end(np.frombuffer(text, np.uint8), at))
        if end == INCOMPLETE:
            return at
        self._keep(text[at:end])
        self._state = _State.KEY
        return end

    def _take_key(self, text: bytes, at: int, byte: bytes, events: list[bytes]) -> int:
        if byte == b"}":
            if PHASE_KEY in self.beside and not self.has_events:
                events.append(json.dumps(self.beside).encode())
                self._state, self._is_object, self.has_events = _State.EVENTS, False, True
                self.beside, self.keys = {}, []
            else:
                self._state, self.is_whole = _State.END, True
            return at + 1
        if byte == b",":
            return at + 1
        if byte != b'"':
            self.complaint = f"at byte {self._at + at:,} there should be the name of a value"
            return at
        end = int(value_end(np.frombuffer(text, np.uint8), at))
        colon = end
        while end != INCOMPLETE and colon < len(text) and text[colon] in _SPACE:
            colon += 1
        if end == INCOMPLETE or colon == len(text):
            return at
        if text[colon : colon + 1] != b":":
            self.complaint = f"at byte {self._at + colon:,} there should be a colon"
            return at
        try:
            self._key = json.loads(text[at:end])
        except ValueError:
            self._key = ""
        if len(self.keys) < MOST_KEYS:
            self.keys.append(self._key)
        self._state = _State.VALUE
        return colon + 1

    def _keep(self, value: bytes) -> None:
        try:
            self.beside[self._key] = json.loads(value)
        except (ValueError, RecursionError):
            self.stray += 1


# Survey of a trace in JSON before it is read: what stands beside its events, wherever in the file.
#
# PyTorch writes the time that all others count from behind the events, or before them.


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
