"""Writes traces of other tools as streams in TAU's layout, one for each process, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from chimbuko.arrays import Table
from chimbuko.errors import TraceFormatError
from chimbuko.formats.events import INSTANTS, NO_EVENTS, Catalogue
from chimbuko.formats.readers.registry import events_of
from chimbuko.formats.streams.ranks import assigned
from chimbuko.formats.streams.rows import NS_PER_US, ProcessRows
from chimbuko.formats.streams.spill import Spill
from chimbuko.trace.discovery import StreamName
from chimbuko.trace.engines import BP5
from chimbuko.trace.writer import StreamWriter

LATEST_NS: Final = 1 << 62
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass
class Converted:
    """What became of traces."""

    streams: list[StreamName] = field(default_factory=list)
    events: int = 0
    rows: int = 0
    complaints: list[str] = field(default_factory=list)
    """One line each: what is not whole, and what was left out."""


def convert(paths: Sequence[Path], folder: Path, program: str, period_us: int) -> Converted:
    """Write streams of the processes of all of the files into a folder.

    Parameters
    ----------
    program
        Name of the program of the streams.
    period_us
        Of a step.

    Raises
    ------
    TraceFormatError
        A file is in no format that is known, or there are no calls in any of them; or there is no room.
    """
    catalogue = Catalogue()
    result = Converted()
    tracks: set[int] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        spill = Spill(folder)
        try:
            for source, path in enumerate(paths):
                for events in events_of(path, catalogue, source):
                    result.events += len(events)
                    tracks.update(np.unique(events["track"]).tolist())
                    spill.put(events)
            used = {catalogue.tracks[track].process for track in tracks}
            _write(spill, catalogue, used, folder, program, period_us, result)
        finally:
            spill.close()
    except OSError as error:
        raise TraceFormatError(f"{folder}: the streams cannot be written ({error.strerror})") from error
    result.complaints = catalogue.complaints + losses_of(catalogue)
    if not result.streams:
        reasons = "; ".join(result.complaints).replace(f"{paths[0]}: ", "") or "it is empty"
        raise TraceFormatError(f"{paths[0]}: there are no calls in it ({reasons})")
    return result


def losses_of(catalogue: Catalogue) -> list[str]:
    """A line for what was left out; instants, which have no duration, are no loss."""
    losses = {kind: count for kind, count in catalogue.losses.items() if kind != INSTANTS}
    if not losses:
        return []
    kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(losses.items()))
    return [f"left out of the traces: {kinds}"]


def program_name(path: Path) -> str:
    """A program's name out of that of a file: ``perfflow.array.pfw`` is of ``perfflow_array``."""
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    # A dash or a dot would end it where streams are found by their names.
    return _NOT_OF_NAMES.sub("_", stem).replace(".", "_").strip("_")[:60] or "trace"


class Streams:
    """Streams that are being written, one for each process as it appears.

    Parameters
    ----------
    ranks
        Of each process of the catalogue.
    """

    def __init__(
        self, catalogue: Catalogue, folder: Path, program: str, ranks: Sequence[int], stack: ExitStack
    ) -> None:
        self.names: list[StreamName] = []
        self.rows = 0
        self._catalogue = catalogue
        self._folder = folder
        self._program = program
        self._ranks = ranks
        self._stack = stack
        self._processes: dict[int, tuple[ProcessRows, StreamWriter]] = {}
        self._origin_ns: int | None = None

    def write(self, events: Table, end_ns: int) -> None:
        """A step of all processes: the next events, in order of time; before ``end_ns`` no more will come."""
        if self._origin_ns is None and len(events):
            # A stream has no time before 1 µs.
            self._origin_ns = min(0, int(events["time_ns"][0]) - NS_PER_US)
        owners = self._owners()[events["track"]]
        for process in np.unique(owners).tolist():
            if process not in self._processes:
                self._open(process)
        for process, (rows, writer) in self._processes.items():
            step = rows.step(events[owners == process], end_ns)
            if step.rows or len(events):
                writer.write_step(
                    step.events, step.comms, step.counters, rows.names, operations=step.operations
                )
                self.rows += step.rows

    def _owners(self) -> Table:
        return np.array([track.process for track in self._catalogue.tracks], np.int32)

    def _open(self, process: int) -> None:
        rank = self._ranks[process]
        name = StreamName(self._program, rank, self._folder / f"tau-metrics-{self._program}-{rank}.bp")
        writer = self._stack.enter_context(StreamWriter(name.path, BP5))
        rows = ProcessRows(
            self._catalogue, process, self._ranks.__getitem__, self._origin_ns or 0, self._program
        )
        self._processes[process] = rows, writer
        self.names.append(name)


def _write(
    spill: Spill,
    catalogue: Catalogue,
    used: Collection[int],
    folder: Path,
    program: str,
    period_us: int,
    result: Converted,
) -> None:
    with ExitStack() as stack:
        streams = Streams(catalogue, folder, program, assigned(catalogue.processes, used), stack)
        for window in spill.windows(period_us * NS_PER_US):
            streams.write(window, int(window["time_ns"][-1]))
        streams.write(NO_EVENTS, LATEST_NS)
        result.streams, result.rows = sorted(streams.names), streams.rows
