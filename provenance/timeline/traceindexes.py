"""The recorded trace of a run, rank by rank: where it lies, and its index where one was made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from chimbuko.capture.trace.discovery import StreamName
from chimbuko.capture.trace.recordedstreams import Stamp, recorded_streams, stamp_of
from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ConfigError, TraceFormatError
from chimbuko.core.ownfolder import is_own_folder, make_own_folder
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.timeline.rankcalls import RankCalls
from chimbuko.provenance.timeline.traceindex import IndexFiles, SpanIndex
from chimbuko.runtime.runs.directory import RunDirectory


def recorded_by_rank(run: RunDirectory, programs: Mapping[int, str]) -> dict[RankKey, StreamName]:
    """The recorded streams of a run that are still there, by the ranks of its programs."""
    numbers = {name: number for number, name in programs.items()}
    try:
        streams = recorded_streams(run)
    except TraceFormatError:
        return {}
    return {(numbers[one.program], one.rank): one for one in streams if one.program in numbers}


class TraceTimelines:
    """Indexes of the recorded trace of a run, as they are made.

    Parameters
    ----------
    provenance
        What is stored of the run: an index without its latest records is no longer used.
    """

    def __init__(self, run: RunDirectory, provenance: Provenance) -> None:
        self._run = run
        self._provenance = provenance
        self._streams: dict[RankKey, StreamName] | None = None
        self._open: dict[RankKey, tuple[Stamp, int, SpanIndex]] = {}
        self.folder = _folder(run)

    def folder_to_write(self) -> Path:
        """Where indexes are to be written: made, and checked where others may write beside it.

        Raises
        ------
        ConfigError
            It cannot be made, or somebody else made it.
        """
        if not self._is_in_run:
            make_own_folder(self.folder)
        return self.folder

    def is_recorded(self, rank: RankKey) -> bool:
        """Whether the whole of a rank could be shown: it was recorded, and its run goes on no longer."""
        try:
            if self._run.read_info().state == "running":
                return False
        except ConfigError:
            return False
        if self._streams is None:
            self._streams = recorded_by_rank(self._run, self._provenance.programs())
        return rank in self._streams

    def index(self, rank: RankKey) -> SpanIndex | None:
        """The index of a rank; None where none was made, or it is older than the trace or its records."""
        if not self.is_recorded(rank) or self._streams is None:
            return None
        files = IndexFiles(self.folder, *rank)
        # What another user left for us in the folder for temporary files is not to be shown.
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
    """In the run; where that cannot be written, in a place of its own for temporary files."""
    if os.access(run.timelines if run.timelines.exists() else run.path, os.W_OK):
        return run.timelines
    return Path(tempfile.gettempdir()) / f"chimbuko-timelines-{os.getuid()}-{run.read_info().id}"
