"""Indexes of recorded streams: all calls as spans, and reduced ones, so that any part is read at once.

Three files per rank: spans, links, and a header, which is written last. Spans of a row stand together, in
order of time, so that a range is found by bisection; each further copy of a row is reduced so far that it has
at most half as many spans as the one before. So a picture of all reads no more than one of a moment.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from chimbuko.capture.trace.discovery import StreamName
from chimbuko.capture.trace.recordedstreams import Stamp, recorded_streams, stamp_of
from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ConfigError, TraceFormatError
from chimbuko.core.files import contents, is_own_folder, make_own_folder
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.timeline.edges import LINK, Links, around, between, joined
from chimbuko.provenance.timeline.rankcalls import RankCalls
from chimbuko.provenance.timeline.spans import (
    MOST_LEVEL,
    SPAN,
    Interval,
    SpanRow,
    Spans,
    SpanWindow,
    cut,
    reduced,
)
from chimbuko.runtime.runs.directory import RunDirectory

VERSION = 1


class RowPlace(msgspec.Struct, frozen=True, array_like=True):
    """Place of a row, reduced to a level, among the spans of its file."""

    thread: int
    depth: int
    level: int
    """Level to which the row is reduced; -1 for the calls themselves."""
    first: int
    end: int


class IndexHeader(msgspec.Struct, frozen=True):
    """Header of an index: what is in it, and what it was made of."""

    version: int
    stamp: Stamp
    """Stamp of the recorded stream, by which a change of that is noticed."""
    judged: int
    """Number of calls of the rank that had records in the store: abnormal ones, which are never merged, and
    others."""
    interval_us: Interval
    lost_us: list[Interval]
    functions: list[str]
    gpu_threads: list[int]
    rows: list[RowPlace]
    calls: int


class IndexFiles(msgspec.Struct, frozen=True):
    """Files of the index of a rank."""

    folder: Path
    program: int
    rank: int

    def path(self, kind: str) -> Path:
        """Return the path of one of the files: ``spans``, ``links`` or ``header``."""
        return self.folder / f"{self.program}-{self.rank}.{kind}"

    def header(self) -> IndexHeader | None:
        """Read the header; None if there is no index, or one that another version made."""
        try:
            header = msgspec.json.decode(contents(self.path("header")), type=IndexHeader)
        except (OSError, msgspec.MsgspecError):
            return None
        return header if header.version == VERSION else None


def write_index(files: IndexFiles, header: IndexHeader, rows: Sequence[SpanRow], links: Links) -> IndexHeader:
    """Write the index of a rank in place of any other; ``header`` is completed by where its rows are.

    Raises
    ------
    OSError
        It cannot be written.
    """
    files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.path("header").unlink(missing_ok=True)
    places: list[RowPlace] = []
    written = 0
    with _new_file(files.path("spans")) as file:
        for row in rows:
            for level, spans in _levels(row.spans):
                file.write(spans.tobytes())
                end = written + len(spans)
                places.append(RowPlace(row.thread, row.depth, level, written, end))
                written = end
    with _new_file(files.path("links")) as file:
        file.write(links.tobytes())
    completed = msgspec.structs.replace(header, rows=places)
    with _new_file(files.path("header")) as file:
        file.write(msgspec.json.encode(completed))
    for kind in ("spans", "links", "header"):
        os.replace(_replacing(files.path(kind)), files.path(kind))
    return completed


def _new_file(path: Path) -> BinaryIO:
    """Open a file of our own that is to replace ``path``, whatever somebody has left in its place."""
    new = _replacing(path)
    new.unlink(missing_ok=True)
    return new.open("xb")


def _replacing(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.new")


def _levels(spans: Spans) -> list[tuple[int, Spans]]:
    """Return the calls, and what is left of them at each level that leaves at most half of the one before."""
    found = [(-1, spans)]
    smaller = spans
    for level in range(MOST_LEVEL):
        if len(found[-1][1]) < 64:
            break
        smaller = reduced(smaller, level)
        if len(smaller) <= len(found[-1][1]) // 2:
            found.append((level, smaller))
    return found


class SpanIndex:
    """Index of one rank, open for reading.

    Parameters
    ----------
    header
        Header that was read from ``files``.
    """

    def __init__(self, files: IndexFiles, header: IndexHeader) -> None:
        self.header = header
        self.rank = files.rank
        self._spans: Spans = _mapped(files.path("spans"), SPAN)
        self.links: Links = _mapped(files.path("links"), LINK)

    def window(
        self, first_us: int, last_us: int, level: int, partners: Sequence[SpanIndex]
    ) -> tuple[SpanWindow, int]:
        """Return what was recorded in a range of time, and the level to which it is reduced.

        Parameters
        ----------
        level
            A column of the picture is 2 ** ``level`` µs wide.
        partners
            Other ranks of the program; messages from and to them get both their ends.
        """
        links = around(self.links, first_us, last_us)
        for partner in partners:
            links = joined(links, self.rank, partner.rank, around(partner.links, first_us, last_us))
        header = self.header
        window = SpanWindow(
            header.functions,
            self._rows(level),
            between(links, first_us, last_us),
            self._known(),
            header.lost_us,
            header.gpu_threads,
        )
        return cut(window, first_us, last_us, level)

    def calls(self) -> SpanWindow:
        """Return all calls of the rank, not reduced, and nothing that is drawn with them."""
        header = self.header
        return SpanWindow(header.functions, self._rows(0), known_us=self._known(), lost_us=header.lost_us)

    def _known(self) -> dict[int, list[Interval]]:
        """Return the intervals by thread in which all calls are known."""
        header = self.header
        begins = [header.interval_us[0], *(end for _, end in header.lost_us)]
        ends = [*(begin for begin, _ in header.lost_us), header.interval_us[1]]
        known = [(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]
        return dict.fromkeys({place.thread for place in header.rows}, known)

    def _rows(self, level: int) -> list[SpanRow]:
        """Return each row, reduced as far as it stands in the file, but not above the level."""
        best: dict[tuple[int, int], RowPlace] = {}
        for place in self.header.rows:
            if place.level <= level:
                best[place.thread, place.depth] = place
        return [
            SpanRow(place.thread, place.depth, self._spans[place.first : place.end])
            for place in best.values()
        ]


def _mapped(path: Path, dtype: np.dtype[np.void]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Map the records of a file, which are read when they are looked at."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r")


def recorded_by_rank(run: RunDirectory, programs: Mapping[int, str]) -> dict[RankKey, StreamName]:
    """Return the recorded streams of a run that are still there, by the ranks of its programs."""
    numbers = {name: number for number, name in programs.items()}
    try:
        streams = recorded_streams(run)
    except TraceFormatError:
        return {}
    return {(numbers[one.program], one.rank): one for one in streams if one.program in numbers}


class TraceTimelines:
    """Indexes of the recorded trace of a run, as far as they have been made.

    Parameters
    ----------
    provenance
        Provenance of the run: an index that lacks its latest records is no longer used.
    """

    def __init__(self, run: RunDirectory, provenance: Provenance) -> None:
        self._run = run
        self._provenance = provenance
        self._streams: dict[RankKey, StreamName] | None = None
        self._open: dict[RankKey, tuple[Stamp, int, SpanIndex]] = {}
        self.folder = _folder(run)

    def folder_to_write(self) -> Path:
        """Make the folder for indexes, and check it where others may write beside it.

        Raises
        ------
        ConfigError
            The folder cannot be made, or somebody else made it.
        """
        if not self._is_in_run:
            make_own_folder(self.folder)
        return self.folder

    def is_recorded(self, rank: RankKey) -> bool:
        """Return whether the whole of a rank could be shown: it was recorded, and its run has ended."""
        try:
            if self._run.read_info().state == "running":
                return False
        except ConfigError:
            return False
        if self._streams is None:
            self._streams = recorded_by_rank(self._run, self._provenance.programs())
        return rank in self._streams

    def index(self, rank: RankKey) -> SpanIndex | None:
        """Return the index of a rank.

        None where none was made, or it is older than the trace or its records.
        """
        if not self.is_recorded(rank) or self._streams is None:
            return None
        files = IndexFiles(self.folder, *rank)
        # What another user may have left in the folder for temporary files is not to be shown.
        header = files.header() if self._is_in_run or is_own_folder(self.folder) else None
        if header is None:
            return None
        stamp, judged = stamp_of(self._streams[rank].path), RankCalls(self._provenance.calls, rank).count()
        if (header.stamp, header.judged) != (stamp, judged):
            return None
        known = self._open.get(rank)
        if known is None or known[:2] != (stamp, judged):
            known = self._open[rank] = stamp, judged, SpanIndex(files, header)
        return known[2]

    @property
    def _is_in_run(self) -> bool:
        return self.folder == self._run.timelines


def _folder(run: RunDirectory) -> Path:
    """Return the folder for indexes: in the run's, or if that cannot be written, among temporary files."""
    if os.access(run.timelines if run.timelines.exists() else run.path, os.W_OK):
        return run.timelines
    return Path(tempfile.gettempdir()) / f"chimbuko-timelines-{os.getuid()}-{run.read_info().id}"
