"""Events that all traces have in common: calls, counters, messages and collective operations, and the
reasons for which one is dropped.

A reader of a format gives events as rows of one table, in any order of time. Processes, threads and names
stand in a ``Catalogue``; the rows mention them by number.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from enum import IntEnum, StrEnum
from typing import Final

import msgspec
import numpy as np

from chimbuko.core.arrays import Table


class Dropped(StrEnum):
    """Reason for which an event is left out, in words that a count follows."""

    NOT_JSON = "events that are not JSON"
    STRAY = "pieces of text between events"
    NO_PHASE = "events without a phase"
    UNKNOWN_PHASE = "events of an unknown phase"
    UNKNOWN_TYPE = "events of an unknown type"
    NO_TIME = "events without a time"
    FAR_TIME = "events whose time lies years from the others"
    LATE = "calls that came more than 30 s after they had begun, or all of a sudden"
    NEGATIVE = "calls that end before they begin"
    NOT_BEGUN = "ends of calls that had not begun"
    NO_VALUE = "counter values that are no numbers, or below 0"
    NO_ARGUMENTS = "arguments that are not JSON"
    ONE_END = "flows with one end"
    WITHIN = "flows within a process"
    UNKNOWN_PARTNER = "messages to or from unknown ranks"
    NOT_UNDERSTOOD = "packets that cannot be understood"
    NO_TRACK_EVENTS = "packets that are no track events"
    SAMPLES = "samples"
    OBJECTS = "objects"
    MEMORY_DUMPS = "memory dumps"
    CLOCKS = "clock synchronisations"
    CONTEXTS = "contexts"
    OPEN_OPERATIONS = "collective operations without an end"
    MANY_TRACKS = "threads beyond the first million, put together"
    MANY_NAMES = "names beyond the first 100,000, put together"
    MANY_LANES = "calls that overlap more than 255 others"
    INSTANTS = "instants"
    METADATA = "metadata of other kinds"
    OF_THE_PROFILER = "calls of the profiler itself"
    LAUNCH_FLOWS = "flows that correlation ids repeat"
    OTHER_RECORDS = "records that are no calls, messages or counters"


WITHOUT_LOSS: Final = frozenset(
    (
        Dropped.INSTANTS,
        Dropped.METADATA,
        Dropped.OF_THE_PROFILER,
        Dropped.LAUNCH_FLOWS,
        Dropped.OTHER_RECORDS,
    )
)
"""Reasons of events that have no duration, or say nothing that the others do not: counted, and no loss."""


MOST_NAMES: Final = 100_000
"""Most names of functions, counters and tags of a trace; all further ones share one."""
MOST_TRACKS: Final = 1 << 20
MOST_TEXT: Final = 8000
"""Maximum number of characters of a name, as the recorder keeps; a digest stands for what is cut off."""
OTHERS: Final = "(functions beyond the first 100,000)"
NO_NAME: Final = -1
FILE_BITS: Final = 33
"""Bits of the number of a group of collective operations; above them is that of the file."""


class Kind(IntEnum):
    """Kind of a row."""

    BEGIN = 0
    """Begin of a call."""
    END = 1
    """End of the innermost open call of that name, or of any with ``NO_NAME``."""
    CALL = 2
    """Whole call, with its duration."""
    COUNTER = 3
    SEND = 4
    RECEIVE = 5
    COLLECTIVE = 6
    """Begin of a collective operation, in the call around it."""


EVENT: Final = np.dtype(
    [
        ("time_ns", np.int64),
        ("value", np.int64),  # of a CALL its duration in ns, of a counter its value, of others bytes
        ("of", np.int64),  # of a message the other process; of a collective operation its group; see Track
        ("track", np.int32),
        ("name", np.int32),  # function or counter; the tag of a message
        ("kind", np.int8),
    ]
)
Row = tuple[int, int, int, int, int, int]
"""One event as plain numbers, in the order of ``EVENT``."""
NO_EVENTS: Final = np.empty(0, EVENT)


class TrackKind(IntEnum):
    """Kind of the calls on a track."""

    THREAD = 0
    """Events of a thread, which nest."""
    ASYNCHRONOUS = 1
    """Events that may overlap; ``of`` tells which of them belong together."""
    GPU = 2
    """Calls of one stream of a GPU."""


class Process(msgspec.Struct):
    """One process of a trace: a rank of the run."""

    key: object
    name: str = ""
    rank: int | None = None
    """Rank, if the trace names it."""
    identity: object | None = None
    """Key that all files of the process have in common, where its trace says enough for that."""
    about: dict[str, str] = msgspec.field(default_factory=dict)
    """Metadata."""


class Track(msgspec.Struct):
    """A thread of a process, or what stands for one."""

    process: int
    kind: TrackKind = TrackKind.THREAD
    name: str = ""
    is_main: bool = False
    about: dict[str, str] = msgspec.field(default_factory=dict)
    """Metadata."""


class Catalogue:
    """Processes, tracks and names of one or several traces, each by a number."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.tracks: list[Track] = []
        self.names: list[str] = []
        self.losses: Counter[str] = Counter()
        """Number of events that could not be understood, or have no place in a stream, by kind."""
        self.complaints: list[str] = []
        """One line each, for a trace that is not whole."""
        self.unwritten: dict[int, Counter[str]] = defaultdict(Counter)
        """Number of calls that are left out of each process's stream, by reason: a part of ``losses``."""
        self._spans: dict[object, dict[int, list[tuple[int, int]]]] = {}
        """Begins and ends, in ns, of the files of each process, by its identity."""
        self._moved: dict[int, tuple[int, int]] = {}
        """Track of the same thread in an earlier file of the process, and which of its files that is, by the
        track in a later one.
        """
        self._processes: dict[object, int] = {}
        self._tracks: dict[tuple[int, object], int] = {}
        self._names: dict[str, int] = {}

    def process(self, key: object) -> int:
        """Return the number of a process, which ``key`` distinguishes from all others."""
        number = self._processes.get(key)
        if number is None:
            number = self._processes[key] = len(self.processes)
            self.processes.append(Process(key))
        return number

    def track(self, process: int, key: object, kind: TrackKind = TrackKind.THREAD) -> int:
        """Return the number of a track, which ``key`` distinguishes from all others of its process."""
        number = self._tracks.get((process, key))
        if number is None:
            if len(self.tracks) >= MOST_TRACKS:
                self.losses[Dropped.MANY_TRACKS] += 1
                return len(self.tracks) - 1
            number = self._tracks[process, key] = len(self.tracks)
            self.tracks.append(Track(process, kind))
        return number

    def lose_calls(self, reason: Dropped, process: int, number: int = 1) -> None:
        """Count calls that are left out of the stream of a process."""
        self.losses[reason] += number
        self.unwritten[process][reason] += number

    def unite(self, process: int, begin_ns: int, end_ns: int) -> None:
        """Take a process whose file has ended for one that is known, if they are the same: they have one
        identity, and the times of their files do not overlap.
        """
        identity = self.processes[process].identity
        if identity is None:
            return
        known = self._spans.setdefault(identity, {})
        for number, spans in known.items():
            if all(end_ns < begin or end < begin_ns for begin, end in spans):
                spans.append((begin_ns, end_ns))
                self._move(process, number, len(spans) - 1)
                return
        known[process] = [(begin_ns, end_ns)]

    def united(self, events: Table) -> Table:
        """Return events with the tracks of the processes that they are of; collective operations of each
        file of a process are counted anew.
        """
        if not self._moved:
            return events
        tracks, file = np.arange(len(self.tracks), dtype=np.int32), np.zeros(len(self.tracks), np.int64)
        for track, (same, number) in self._moved.items():
            tracks[track], file[track] = same, number
        events = events.copy()
        events["of"] += np.where(events["kind"] == Kind.COLLECTIVE, file[events["track"]] << FILE_BITS, 0)
        events["track"] = tracks[events["track"]]
        return events

    def _move(self, process: int, number: int, file: int) -> None:
        self.unwritten[number] += self.unwritten.pop(process, Counter())
        for owner, key in [key for key in self._tracks if key[0] == process]:
            track = self._tracks.pop((owner, key))
            same = self._tracks.setdefault((number, key), track)
            self._moved[track] = same, file
            self.tracks[track].process = number
            self.tracks[track].is_main &= same == track

    def name(self, text: str) -> int:
        """Return the number of a name."""
        number = self._names.get(text)
        if number is None:
            number = self._new_name(text)
        return number

    def _new_name(self, text: str) -> int:
        # Lone surrogates come out of JSON's escapes, and no store takes them.
        kept = _cut(text).encode("utf-8", "replace").decode().replace("\0", "�") or "(no name)"
        if len(self.names) >= MOST_NAMES:
            kept = OTHERS
            self.losses[Dropped.MANY_NAMES] += 1
        number = self._names.get(kept)
        if number is None:
            number = self._names[kept] = len(self.names)
            self.names.append(kept)
        if len(self._names) < 2 * MOST_NAMES:
            self._names[text] = number
        return number


def table_of(rows: list[Row]) -> Table:
    """Return the rows as a table."""
    return np.array(rows, EVENT) if rows else NO_EVENTS


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{text[: MOST_TEXT - len(digest) - 1]}…{digest}"
