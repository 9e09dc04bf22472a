"""Streams made of other tools' traces while these are written; a file is read as far as it will stay."""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from chimbuko.capture.formats.eras import GAP_NS, NS_PER_YEAR
from chimbuko.capture.formats.processes import LATEST_NS, Streams, stated
from chimbuko.capture.formats.readers.events import NO_EVENTS, Catalogue, Dropped, Kind
from chimbuko.capture.formats.readers.registry import Reader, format_of, reader_of
from chimbuko.capture.formats.spill import ordered
from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.core.arrays import Table
from chimbuko.core.errors import TraceFormatError

MOST_AT_ONCE: Final = 4 << 20
_SPACE: Final = b" \t\r\n"


class GrowingFile:
    """A file that grows, read as far as it will stay.

    A writer that keeps its file whole ends it by brackets, and writes the next events over them. So the
    brackets and the white space at the end are taken only when something follows them, or at the very end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0

    def more(self, is_all: bool = False) -> bytes:
        """Return the next bytes; with ``is_all`` also what closes the file.

        Raises
        ------
        TraceFormatError
            It cannot be read, or is shorter than what was read of it.
        """
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._at:
                    raise TraceFormatError(f"{self.path}: it was written anew; what came before is taken")
                file.seek(self._at)
                data = file.read(MOST_AT_ONCE)
        except OSError as error:
            raise TraceFormatError(f"{self.path}: cannot be read ({error.strerror})") from error
        if not is_all and self._at + len(data) == size:
            data = without_end(data)
        self._at += len(data)
        return data


def without_end(data: bytes) -> bytes:
    """Return the bytes without what may close a trace in JSON: ``]`` or ``]}``, and white space."""
    kept = data.rstrip(_SPACE)
    if kept.endswith(b"}") and kept[:-1].rstrip(_SPACE).endswith(b"]"):
        kept = kept[:-1].rstrip(_SPACE)
    return kept[:-1].rstrip(_SPACE) if kept.endswith(b"]") else kept


LEAST_HOLD_NS: Final = 1_000_000_000
MOST_HOLD_NS: Final = 30_000_000_000
"""Whole calls come when they end: what has begun earlier before the newest event is too late."""
MOST_HELD: Final = 4_000_000
"""Events, 160 MB."""


class Held:
    """Events that wait until none can come before them."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._parts: list[Table] = []
        self._newest_ns = -LATEST_NS
        self._passed_ns = -LATEST_NS
        self._hold_ns = LEAST_HOLD_NS

    def put(self, events: Table) -> None:
        """Some more, in any order."""
        if not len(events):
            return
        is_call = events["kind"] == Kind.CALL
        ends_ns = events["time_ns"] + np.where(is_call, events["value"], 0)
        newest_ns = int(ends_ns.max())
        if newest_ns - self._newest_ns > GAP_NS and self._newest_ns > -LATEST_NS:
            years = (newest_ns - self._newest_ns) / NS_PER_YEAR
            self._catalogue.complaints.append(
                f"the times of the trace go on {years:.0f} years later: both cannot be of one recording"
            )
        self._newest_ns = max(self._newest_ns, newest_ns)
        longest_ns = int(np.where(is_call, events["value"], 0).max())
        # So that the next one of the longest comes in time.
        self._hold_ns = min(max(self._hold_ns, 2 * longest_ns), MOST_HOLD_NS)
        is_late = events["time_ns"] < self._passed_ns
        if is_late.any():
            for track, kind in events[is_late][["track", "kind"]].tolist():
                if kind in (Kind.CALL, Kind.BEGIN):
                    self._catalogue.lose_calls(Dropped.LATE, self._catalogue.tracks[track].process)
                else:
                    self._catalogue.losses[Dropped.LATE] += 1
            events = events[~is_late]
        self._parts.append(events)

    def due(self, is_all: bool = False) -> tuple[Table, int]:
        """Events before which none will be taken any more, in order, and the time up to which that holds."""
        events = np.concatenate([NO_EVENTS, *self._parts])
        if is_all:
            until_ns = LATEST_NS
        else:
            until_ns = max(self._newest_ns - self._hold_ns, self._passed_ns)
            if len(events) > MOST_HELD:
                until_ns = max(until_ns, int(np.median(events["time_ns"])))
        is_due = events["time_ns"] < until_ns
        self._parts = [events[~is_due]]
        self._passed_ns = until_ns
        return ordered(events[is_due]), until_ns


class LiveRanks:
    """Ranks of processes in order of appearance, unless a trace says them."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._ranks: dict[int, int] = {}

    def of(self, process: int) -> int:
        """Rank of a process; it stays what it is from the first question on."""
        if process not in self._ranks:
            taken = set(self._ranks.values())
            wanted = stated(self._catalogue.processes[process])
            if wanted is None or wanted in taken:
                wanted = next(rank for rank in itertools.count() if rank not in taken)
            self._ranks[process] = wanted
        return self._ranks[process]


class Following:
    """Follows all files that match patterns, also those that come later.

    Parameters
    ----------
    settings
        Where streams go, and how.
    stack
        Ends the streams.
    """

    def __init__(
        self, patterns: Sequence[str], program: str, settings: WriterSettings, stack: ExitStack
    ) -> None:
        self.catalogue = Catalogue()
        self.files: dict[Path, GrowingFile] = {}
        self._patterns = patterns
        self._readers: dict[Path, Reader] = {}
        self._given_up: set[Path] = set()
        self._held = Held(self.catalogue)
        ranks = LiveRanks(self.catalogue)
        self._streams = Streams(
            self.catalogue, program, ranks.of, lambda rank: settings.open(program, rank), stack
        )

    def look(self, is_last: bool = False) -> bool:
        """Take in what has come; whether there was anything."""
        for pattern in self._patterns:
            for name in sorted(glob.glob(pattern)):
                self.files.setdefault(Path(name), GrowingFile(Path(name)))
        has_news = [self._take(path, is_last) for path in self.files if path not in self._given_up]
        return any(has_news)

    def write(self, is_last: bool = False) -> None:
        """Write a step of what can be judged by now."""
        events, until_ns = self._held.due(is_last)
        if len(events):
            self._streams.write(events, until_ns)
        if is_last:
            self._streams.finish()

    def finish(self) -> None:
        """Take in and write all that is there."""
        while self.look(is_last=True):
            pass
        for path, reader in self._readers.items():
            self._held.put(reader.finish())
            if reader.complaint and path not in self._given_up:
                self.catalogue.complaints.append(f"{path}: {reader.complaint}; what came before is taken")
        self.write(is_last=True)

    def _take(self, path: Path, is_last: bool) -> bool:
        try:
            if path not in self._readers:
                if not path.stat().st_size:
                    return False
                form = format_of(path)
                if not form.is_streamed:
                    raise TraceFormatError(f"{path}: a trace of {form.name} cannot be followed; use --trace")
                self._readers[path] = reader_of(form, self.catalogue, len(self._readers), path.name)
            data = self.files[path].more(is_last)
        except (TraceFormatError, OSError) as error:
            self.catalogue.complaints.append(str(error))
            self._given_up.add(path)
            return False
        self._held.put(self._readers[path].feed(data))
        return bool(data)
