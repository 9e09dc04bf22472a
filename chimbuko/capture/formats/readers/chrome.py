"""Reads the trace events of Chrome's format, as its viewers, PerfFlowAspect and many others write them.

The phases of events are those of "Trace Event Format": ``X``, ``B`` and ``E`` are calls, ``b``, ``e``, ``S``
and ``F`` asynchronous ones, ``s``, ``t`` and ``f`` are flows, ``C`` are counters, ``M`` has names. Times
are in µs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from chimbuko.capture.formats.readers.events import (
    NO_NAME,
    Catalogue,
    Dropped,
    Kind,
    Row,
    TrackKind,
    table_of,
)
from chimbuko.capture.formats.readers.flows import Flows
from chimbuko.capture.formats.readers.jsontext import JsonText
from chimbuko.core.arrays import Table

MOST_NS: Final = 1 << 62
NS_PER_US: Final = 1000
MOST_WHOLE_US: Final = MOST_NS / NS_PER_US
_CALL: Final = int(Kind.CALL)
MOST_FUNCTIONS: Final = 1 << 18
MOST_DIGITS: Final = 19
"""Number of digits from which the number of a process is taken for a text."""
_RANK: Final = re.compile(r"\brank\s*[:#=]?\s*(\d{1,7})\b", re.IGNORECASE)
_WITHOUT_MEANING: Final = {
    **dict.fromkeys("iIRnTp", Dropped.INSTANTS),
    "P": Dropped.SAMPLES,
    **dict.fromkeys("NOD", Dropped.OBJECTS),
    **dict.fromkeys("vV", Dropped.MEMORY_DUMPS),
    "c": Dropped.CLOCKS,
    **dict.fromkeys("()", Dropped.CONTEXTS),
}
_TRAILING_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*")|,(\s*[}\]])')
"""Comma before a closing bracket, which many programs write; texts match first, and stay as they are."""


NO_ARGUMENTS: Final = msgspec.Raw(b"null")


class ChromeEvent(msgspec.Struct, gc=False):
    """One event; any of its fields may be missing, and be of any type."""

    ph: Any = None
    name: Any = None
    cat: Any = None
    pid: Any = 0
    tid: Any = 0
    ts: Any = None
    dur: Any = None
    id: Any = None
    id2: Any = None
    scope: Any = None
    args: msgspec.Raw = NO_ARGUMENTS


_ONE: Final = msgspec.json.Decoder(ChromeEvent)
_MANY: Final = msgspec.json.Decoder(list[ChromeEvent])


class Reader:
    """Reads one text.

    Parameters
    ----------
    catalogue
        Gets processes, threads and names.
    source
        Distinguishes the processes of this text from those of others.
    name
        Name of its file.
    """

    has_more_in_calls = False
    """``on_call`` wants to see each one."""
    has_modules = False
    """A category is the module of a function, and part of the function's name."""

    def __init__(self, catalogue: Catalogue, source: int, name: str) -> None:
        self.text = JsonText()
        self.catalogue = catalogue
        self._source = source
        self._rows: list[Row] = []
        self._threads: dict[tuple[Any, Any], int] = {}
        self._functions: dict[tuple[Any, Any], int] = {}
        self._flows = Flows(catalogue.losses)
        self._handlers: dict[str, Callable[[ChromeEvent], None]] = {
            "X": self._call,
            "B": self._begin,
            "E": self._end,
            "b": self._begin_asynchronous,
            "S": self._begin_asynchronous,
            "e": self._end_asynchronous,
            "F": self._end_asynchronous,
            "s": self._flow,
            "t": self._flow,
            "f": self._flow,
            "C": self._counter,
            "M": self._metadata,
        }

    def foreknow(self, beside: Mapping[str, Any]) -> None:
        """Take what stands beside the events, for readers of dialects to which it matters."""

    @property
    def complaint(self) -> str:
        """Reason why part of the trace could not be read; empty if all could."""
        return self.text.complaint

    def feed(self, data: bytes) -> Table:
        """Take in the next bytes, and return the events that are known now."""
        handlers, losses = self._handlers, self.catalogue.losses
        for event, text in self._decoded(self.text.feed(data)):
            handler = handlers.get(event.ph) if type(event.ph) is str else None
            if handler is not None:
                handler(event)
            elif event.ph is not None:
                losses[_WITHOUT_MEANING.get(str(event.ph), Dropped.UNKNOWN_PHASE)] += 1
            elif text[1:-1].strip():
                # PerfFlowAspect's own tests end an array by an empty object, which is no event.
                losses[Dropped.NO_PHASE] += 1
        rows, self._rows = self._rows, []
        return table_of(rows)

    def finish(self) -> Table:
        """Return the events that are left, as no more bytes will come."""
        self.text.finish()
        self._flows.finish()
        if self.text.stray:
            self.catalogue.losses[Dropped.STRAY] += self.text.stray
        return table_of([])

    def _decoded(self, texts: list[bytes]) -> Iterator[tuple[ChromeEvent, bytes]]:
        try:
            return zip(_MANY.decode(b"[" + b",".join(texts) + b"]"), texts, strict=True)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            events = ((self._decoded_one(text), text) for text in texts)
            return ((event, text) for event, text in events if event is not None)

    def _decoded_one(self, text: bytes) -> ChromeEvent | None:
        """Return an event that the strict reader rejects: one with Python's NaN, bytes that are no UTF-8,
        or a comma behind the last value.
        """
        try:
            return _ONE.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        try:
            strict = _TRAILING_COMMA.sub(lambda found: found[1] or found[2], text.decode("utf-8", "replace"))
            fields = json.loads(strict, parse_constant=lambda _: None)
            arguments = fields.pop("args", None)
            known = {name: fields[name] for name in ChromeEvent.__struct_fields__ if name in fields}
            return ChromeEvent(**known, args=msgspec.Raw(json.dumps(arguments).encode()))
        except (ValueError, TypeError, RecursionError):
            self.catalogue.losses[Dropped.NOT_JSON] += 1
            return None

    def _call(self, event: ChromeEvent) -> None:
        time_ns, duration_ns = _ns(event.ts), _ns(event.dur or 0)
        if time_ns is None or duration_ns is None:
            self.catalogue.lose_calls(Dropped.NO_TIME, self._process(event.pid))
        elif duration_ns < 0:
            self.catalogue.lose_calls(Dropped.NEGATIVE, self._process(event.pid))
        else:
            track, name = self._thread(event), self._function(event)
            self._rows.append((time_ns, duration_ns, 0, track, name, _CALL))
            if self.has_more_in_calls:
                self.on_call(event, time_ns, duration_ns, track)

    def on_call(self, event: ChromeEvent, time_ns: int, duration_ns: int, track: int) -> None:
        """Hook for readers of dialects: takes what else a call holds."""

    def put(self, row: Row) -> None:
        """Add one event, for readers of dialects."""
        self._rows.append(row)

    def _begin(self, event: ChromeEvent) -> None:
        time_ns = self._ns(event.ts)
        if time_ns is not None:
            self._rows.append((time_ns, 0, 0, self._thread(event), self._function(event), Kind.BEGIN))

    def _end(self, event: ChromeEvent) -> None:
        time_ns = self._ns(event.ts)
        if time_ns is not None:
            name = NO_NAME if event.name is None else self._function(event)
            self._rows.append((time_ns, 0, 0, self._thread(event), name, Kind.END))

    def _begin_asynchronous(self, event: ChromeEvent) -> None:
        self._asynchronous(event, Kind.BEGIN)

    def _end_asynchronous(self, event: ChromeEvent) -> None:
        self._asynchronous(event, Kind.END)

    def _asynchronous(self, event: ChromeEvent, kind: Kind) -> None:
        time_ns = self._ns(event.ts)
        if time_ns is None:
            return
        process = self._process(event.pid)
        track = self.catalogue.track(process, TrackKind.ASYNCHRONOUS, TrackKind.ASYNCHRONOUS)
        self.catalogue.tracks[track].name = "asynchronous calls"
        name = NO_NAME if kind is Kind.END and event.name is None else self._function(event)
        self._rows.append((time_ns, 0, _identity(event), track, name, kind))

    def _flow(self, event: ChromeEvent) -> None:
        time_ns = self._ns(event.ts)
        if time_ns is not None:
            here = time_ns, self._thread(event), self._process(event.pid)
            tag = self.catalogue.name(_text(event.name))
            size_bytes = _whole(self.arguments(event).get("bytes")) or 0
            self._rows += self._flows.put(_identity(event), event.ph, here, tag, size_bytes)

    def _counter(self, event: ChromeEvent) -> None:
        time_ns = self._ns(event.ts)
        if time_ns is None:
            return
        series = self.arguments(event)
        if not series:
            self.catalogue.losses[Dropped.NO_VALUE] += 1
            return
        name, track = _text(event.name), self._thread(event)
        number = f" [{event.id}]" if event.id is not None else ""
        for key, value in series.items():
            # A single series mostly repeats the name of its counter.
            is_alone = len(series) == 1 and key in ("value", name)
            whole = _whole(value)
            if whole is None:
                self.catalogue.losses[Dropped.NO_VALUE] += 1
                continue
            full = name + number if is_alone else f"{name}{number}: {key}"
            self._rows.append((time_ns, whole, 0, track, self.catalogue.name(full), Kind.COUNTER))

    def _metadata(self, event: ChromeEvent) -> None:
        arguments = self.arguments(event)
        process = self.catalogue.processes[self._process(event.pid)]
        if event.name == "process_name":
            process.name = process.name or _text(arguments.get("name"))
            process.rank = rank_in(process.name) if process.rank is None else process.rank
        elif event.name == "thread_name":
            track = self.catalogue.tracks[self._thread(event)]
            track.name = track.name or _text(arguments.get("name"))
        elif event.name == "process_labels":
            process.about["Process Labels"] = _text(arguments.get("labels"))
        else:
            self.catalogue.losses[Dropped.METADATA] += 1

    def arguments(self, event: ChromeEvent) -> dict[str, Any]:
        """Return the ``args`` of an event; empty if that is no object."""
        try:
            arguments = msgspec.json.decode(event.args)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.catalogue.losses[Dropped.NO_ARGUMENTS] += 1
            return {}
        return arguments if isinstance(arguments, dict) else {}

    def _ns(self, us: Any) -> int | None:
        """Return a time in ns; None, and counted, where it is none."""
        time_ns = _ns(us)
        if time_ns is None:
            self.catalogue.losses[Dropped.NO_TIME] += 1
        return time_ns

    def _process(self, pid: Any) -> int:
        return self.catalogue.process(self.process_key(_key(pid)))

    def process_key(self, pid: Any) -> object:
        """Return what distinguishes a process of this text from all others."""
        return self._source, pid

    def _thread(self, event: ChromeEvent) -> int:
        pid, tid = event.pid, event.tid
        if type(pid) is not int or type(tid) is not int:
            pid, tid = _key(pid), _key(tid)
        track = self._threads.get((pid, tid))
        if track is None:
            track = self.catalogue.track(self._process(pid), self.thread_key(pid, tid))
            self.catalogue.tracks[track].is_main = pid == tid
            self._threads[pid, tid] = track
        return track

    def thread_key(self, pid: Any, tid: Any) -> object:
        """Return what distinguishes a thread from all others of its process."""
        return tid

    def _function(self, event: ChromeEvent) -> int:
        name, category = event.name, event.cat
        if type(name) is not str or type(category) is not str:
            name, category = _text(name), _text(category)
        key = name, category
        number = self._functions.get(key)
        if number is None:
            number = self.catalogue.name(self.function_name(name, category))
            if len(self._functions) < MOST_FUNCTIONS:
                self._functions[key] = number
        return number

    def function_name(self, name: str, category: str) -> str:
        """Return the name of a function."""
        return f"{name} [{category}]" if self.has_modules and category else name


def rank_in(name: str) -> int | None:
    """Return the rank that the name of a process says, as in ``rank 3`` and ``MPI Rank: 3``; None without
    one.
    """
    match = _RANK.search(name)
    return int(match[1]) if match else None


def _ns(us: Any) -> int | None:
    """Return a time in ns; None if it is none."""
    kind = type(us)
    if kind is float and -MOST_WHOLE_US < us < MOST_WHOLE_US:
        # 1970 is so long ago that the product has no whole ns any more.
        whole = int(us)
        return whole * NS_PER_US + int((us - whole) * NS_PER_US + 0.5)
    if kind is str:
        try:
            us, kind = float(us), float
        except ValueError:
            us = None
    elif kind is not int and kind is not float:
        us = None
    # NaN is neither.
    if us is None or not -MOST_NS < us * NS_PER_US < MOST_NS:
        return None
    whole = int(us)
    return whole * NS_PER_US + (round((us - whole) * NS_PER_US) if kind is float else 0)


def _key(value: Any) -> Any:
    """Return the key of a process or thread, which may be a number or a text: 7, 7.0 and "7" are the same."""
    if type(value) is float and value.is_integer():
        return int(value)
    text = _text(value)
    return int(text) if text.isdecimal() and len(text) < MOST_DIGITS else text


def _text(value: Any) -> str:
    return value if type(value) is str else "" if value is None else str(value)


def _whole(value: Any) -> int | None:
    """Return a counter's value as streams have them; None if there is none such."""
    if type(value) is bool or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < MOST_NS else None


def _identity(event: ChromeEvent) -> int:
    """Return the number for the id of an event, which counts within its category and scope, and within its
    process where it says so, or is one of the asynchronous events of old.
    """
    own, process = event.id, event.pid if event.ph in ("S", "T", "F") else None
    if own is None and isinstance(event.id2, dict):
        own, process = event.id2.get("global"), None
        if own is None:
            own, process = event.id2.get("local"), event.pid
    return hash((_text(event.cat), _text(event.scope), _text(own), _text(process))) >> 1
