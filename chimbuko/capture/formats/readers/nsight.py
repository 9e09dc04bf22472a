"""Reads what Nsight Systems exports as SQLite: calls of CUDA, NVTX, MPI, the operating system and other
libraries on threads, and kernels, copies and fillings of memory on GPUs.

Its tables differ by version and by what was recorded. So each that has begin, end and thread of its rows is
one of calls.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from chimbuko.capture.formats.readers.callrows import CallRows
from chimbuko.capture.formats.readers.events import Catalogue, Dropped
from chimbuko.core.arrays import Table
from chimbuko.core.errors import TraceFormatError

STRINGS: Final = "StringIds"
_GPU_TABLES: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "ENUM_CUDA_MEMCPY_OPER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "",
}
"""Tables of what runs on GPUs, with those of the names of their kinds."""
_OF_THE_PROFILER: Final = frozenset(("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"))
_NAMES: Final = ("demangledName", "nameId", "textId", "text", "shortName")
"""Columns of names, those that say most first; a text, or the number of one."""
_VERSION: Final = re.compile(r"_v\d+(?:_\w+)?")
"""Suffix that CUPTI adds to the name of a function: ``cudaLaunchKernel_v7000``."""
_PID_SHIFT: Final = 24
_LOW_BITS: Final = (1 << _PID_SHIFT) - 1


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Table]:
    """Yield the events of a file, as many at a time as are worth it; before an error all that came before it.

    Raises
    ------
    TraceFormatError
        It is the database of another program.
    """
    try:
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            yield from _Export(database, catalogue, source, path).events()
    except sqlite3.Error as error:
        catalogue.complaints.append(f"{path}: cannot be read ({error}); what came before is taken")


class _Export:
    def __init__(self, database: sqlite3.Connection, catalogue: Catalogue, source: int, path: Path) -> None:
        self._database = database
        self._catalogue = catalogue
        self._source = source
        tables = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        self._columns = {
            name: {row[1] for row in database.execute(f"PRAGMA table_info({_quoted(name)})")}
            for (name,) in tables
        }
        if STRINGS not in self._columns:
            raise TraceFormatError(
                f"{path}: an SQLite database that Nsight Systems did not export; of rocprofv3 take "
                "'--output-format pftrace', of Nsight Systems 'nsys export --type sqlite FILE.nsys-rep'"
            )
        self._strings = dict(database.execute(f"SELECT id, value FROM {STRINGS}"))
        self._base_ns = self._begin_of_session_ns()
        self._rows = CallRows(catalogue)
        self._tracks: dict[int, int] = {}
        self._processes: dict[int, int] = {}

    def events(self) -> Iterator[Table]:
        """Yield the events of all tables."""
        for table, columns in self._columns.items():
            if not {"start", "end"} <= columns:
                continue
            if table in _GPU_TABLES:
                yield from self._on_gpus(table)
            elif "globalTid" in columns and table not in _OF_THE_PROFILER:
                yield from self._on_threads(table)
            else:
                count = self._database.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0]
                of_profiler = table in _OF_THE_PROFILER
                reason = Dropped.OF_THE_PROFILER if of_profiler else Dropped.OTHER_RECORDS
                self._catalogue.losses[reason] += count
        self._describe()
        yield self._rows.take()

    def _begin_of_session_ns(self) -> int:
        with suppress(sqlite3.Error, TypeError, ValueError):
            found = self._database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
            return int(found[0])
        # A stream has no time before 1 µs.
        return 1000

    def _on_threads(self, table: str) -> Iterator[Table]:
        columns = self._columns[table]
        names = [name for name in _NAMES if name in columns]
        correlation = "correlationId" if "correlationId" in columns else "0"
        query = (
            f"SELECT start, end, globalTid, {correlation}, {', '.join(names) or 'NULL'} FROM {_quoted(table)}"
        )
        for begin_ns, end_ns, thread, identity, *texts in self._database.execute(query):
            if end_ns is None or thread is None:
                # Marks of NVTX, and ranges that have not ended.
                self._catalogue.losses[Dropped.INSTANTS] += 1
                continue
            self._put(begin_ns, end_ns, self._track(int(thread)), self._name(texts) or table, identity)
            if self._rows.is_full:
                yield self._rows.take()

    def _on_gpus(self, table: str) -> Iterator[Table]:
        columns = self._columns[table]
        names = [name for name in _NAMES if name in columns]
        kinds = self._kinds(_GPU_TABLES[table])
        kind = "copyKind" if "copyKind" in columns else "NULL"
        owner = "globalPid" if "globalPid" in columns else "0"
        query = (
            f"SELECT start, end, {owner}, deviceId, streamId, correlationId, {kind}, "
            f"{', '.join(names) or 'NULL'} FROM {_quoted(table)}"
        )
        plain = table.rpartition("_")[2].lower()
        for begin_ns, end_ns, pid, device, stream, identity, copy, *texts in self._database.execute(query):
            track = self._rows.gpu_track(self._process(int(pid or 0)), device, stream)
            self._put(begin_ns, end_ns, track, self._name(texts) or kinds.get(copy) or plain, identity)
            if self._rows.is_full:
                yield self._rows.take()

    def _put(self, begin_ns: int, end_ns: int, track: int, name: str, identity: int | None) -> None:
        times_ns = self._base_ns + begin_ns, self._base_ns + end_ns
        self._rows.put(*times_ns, track, name, int(identity or 0))

    def _kinds(self, table: str) -> dict[int, str]:
        columns = self._columns.get(table, set())
        label = next((name for name in ("label", "name") if name in columns), None)
        if label is None:
            return {}
        found = self._database.execute(f"SELECT id, {label} FROM {_quoted(table)}")
        return {number: f"memcpy {text}" for number, text in found}

    def _name(self, texts: list[str | int | None]) -> str:
        for text in texts:
            if found := self._strings.get(text) if isinstance(text, int) else text:
                return _VERSION.sub("", found) if found.startswith("cu") else str(found)
        return ""

    def _track(self, thread: int) -> int:
        track = self._tracks.get(thread)
        if track is None:
            track = self._tracks[thread] = self._catalogue.track(self._process(thread), thread & _LOW_BITS)
            pid = thread >> _PID_SHIFT & _LOW_BITS
            self._catalogue.tracks[track].is_main |= pid == thread & _LOW_BITS
        return track

    def _process(self, owner: int) -> int:
        """Return the process of a number that holds machine, process and perhaps thread."""
        key = owner >> _PID_SHIFT
        if key not in self._processes:
            self._processes[key] = self._catalogue.process((self._source, key))
        return self._processes[key]

    def _describe(self) -> None:
        """Take the names of processes and threads that have calls, and ranks of MPI, where there are any."""
        with suppress(sqlite3.Error):
            for owner, name in self._database.execute("SELECT globalPid, name FROM PROCESSES"):
                if owner >> _PID_SHIFT in self._processes:
                    self._catalogue.processes[self._process(owner)].name = str(name or "")
        with suppress(sqlite3.Error):
            for thread, name in self._database.execute("SELECT globalTid, nameId FROM ThreadNames"):
                if thread in self._tracks:
                    self._catalogue.tracks[self._tracks[thread]].name = self._strings.get(name, "")
        with suppress(sqlite3.Error):
            for thread, rank in self._database.execute("SELECT globalTid, rank FROM MPI_RANKS"):
                if thread >> _PID_SHIFT in self._processes:
                    self._catalogue.processes[self._process(thread)].rank = int(rank)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
