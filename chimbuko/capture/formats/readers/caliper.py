"""Reads event traces of Caliper (``.cali``): beginnings and ends of regions, with times.

Caliper writes them with its services event, trace, timer and recorder. Profiles, which have sums only, hold
no calls.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from caliperreader import CaliperStreamReader

from chimbuko.capture.formats.readers.events import Catalogue, Dropped, Kind, Row, table_of
from chimbuko.capture.formats.readers.registry import UNREADABLE, open_unpacked
from chimbuko.core.arrays import Table

LINES_AT_ONCE: Final = 50_000
MOST_LINE_BYTES: Final = 1 << 20
MOST_NS: Final = 1 << 62
_BUILT_IN_NODES: Final = 12
_NUMBERS: Final = re.compile(r",(id|parent)=(\d{1,18})(?=,|$)", re.MULTILINE)
_BEGIN, _END = "event.begin#", "event.end#"
_TIMES: Final = (("time.offset.ns", 1), ("time.offset", 1000))
"""Times since the beginning, and their units in ns."""
_RANK: Final = "mpi.rank"
_THREADS: Final = ("pthread.id", "omp.thread.id")


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Table]:
    """Yield the events of a file; before an error all that came before it."""
    reader = CaliperStreamReader()
    regions, nodes = _Regions(catalogue, source), CheckedNodes()
    complaint, error = "", None
    with open_unpacked(path) as file:
        lines = iter(lambda: file.readline(MOST_LINE_BYTES), b"")
        while not complaint and error is None:
            some: list[str] = []
            try:
                # What came before an error stays in it.
                some.extend(
                    line.decode("utf-8", "replace") for line in itertools.islice(lines, LINES_AT_ONCE)
                )
            except UNREADABLE as unreadable:
                error = unreadable
            if not some:
                break
            if not some[-1].endswith("\n"):
                # Half a number is another one.
                complaint = (
                    "it ends within a line" if len(some.pop()) < MOST_LINE_BYTES else "a line has no end"
                )
            complaint = _complaint_of(reader, map(nodes.checked, some), regions) or complaint
            yield regions.rows()
    if not complaint and not regions.count:
        complaint = "it has no events with times; record with CALI_SERVICES_ENABLE=event,recorder,timer,trace"
    if error is not None:
        raise error
    if complaint:
        catalogue.complaints.append(f"{path}: {complaint}; what came before is taken")


def _complaint_of(reader: CaliperStreamReader, lines: Iterator[str], regions: _Regions) -> str:
    """Read lines up to one that cannot be; what is wrong with that, or nothing."""
    try:
        reader.read((line for line in lines if not line.isspace()), regions.take)
    except Exception as error:
        # Of its reader, in many ways: a backslash at the end of a line stops an iterator of it.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        return f"it holds a line that is not Caliper's ({reason})"
    return ""


class CheckedNodes:
    """The nodes of a file, each behind its parent: else the library goes round in circles for ever."""

    def __init__(self) -> None:
        self._known = set(range(_BUILT_IN_NODES))

    def checked(self, line: str) -> str:
        """Return a line unchanged, after checking it.

        Raises
        ------
        ValueError
            It is a node that cannot be.
        """
        if line.startswith("__rec=node"):
            fields = dict(_NUMBERS.findall(line))
            node, parent = int(fields.get("id", 0)), int(fields.get("parent", 0))
            if node in self._known or parent not in self._known:
                raise ValueError(f"a node that cannot be: {line.strip()}")
            self._known.add(node)
        return line


class _Regions:
    """Events of regions, as records come."""

    def __init__(self, catalogue: Catalogue, source: int) -> None:
        self.count = 0
        self._catalogue = catalogue
        self._source = source
        self._rows: list[Row] = []

    def take(self, record: Mapping[str, Any]) -> None:
        """Take one record."""
        edges = [(kind, value) for key, value in record.items() if (kind := _kind(key)) is not None]
        time_ns = _time_ns(record)
        if time_ns is None or not edges:
            self._catalogue.losses[Dropped.NO_TIME if edges else Dropped.OTHER_RECORDS] += len(edges) or 1
            return
        track = self._track(record)
        for kind, value in edges:
            self._rows.append((time_ns, 0, 0, track, self._catalogue.name(_last(value)), kind))
        self.count += len(edges)

    def rows(self) -> Table:
        """Return the rows that have come since the last call."""
        rows, self._rows = self._rows, []
        return table_of(rows)

    def _track(self, record: Mapping[str, Any]) -> int:
        rank = _last(record.get(_RANK, ""))
        process = self._catalogue.process((self._source, rank))
        if rank.isdecimal() and len(rank) < 9:
            self._catalogue.processes[process].rank = int(rank)
        thread = next((_last(record[name]) for name in _THREADS if name in record), "")
        return self._catalogue.track(process, thread)


def _kind(key: str) -> Kind | None:
    return Kind.BEGIN if key.startswith(_BEGIN) else Kind.END if key.startswith(_END) else None


def _time_ns(record: Mapping[str, Any]) -> int | None:
    for name, unit_ns in _TIMES:
        if name in record:
            time_ns = float(_last(record[name])) * unit_ns
            # NaN is not.
            return round(time_ns) if 0 <= time_ns < MOST_NS else None
    return None


def _last(value: Any) -> str:
    """Return the innermost value of a record."""
    return str(value[-1]) if isinstance(value, list) else str(value)
