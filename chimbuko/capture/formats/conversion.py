"""Writes traces of other tools as streams in TAU's layout, one for each process, in bounded memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from chimbuko.capture.formats.eras import PIECE_BITS, Eras, clocks_apart, left_out
from chimbuko.capture.formats.processes import LATEST_NS, Streams, assigned
from chimbuko.capture.formats.readers import frames
from chimbuko.capture.formats.readers.events import WITHOUT_LOSS, Catalogue, Dropped, Kind
from chimbuko.capture.formats.readers.registry import events_of
from chimbuko.capture.formats.rows import NS_PER_US
from chimbuko.capture.formats.spill import Spill
from chimbuko.capture.trace.discovery import BP5, STREAM_PREFIX, StreamName
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import Table
from chimbuko.core.errors import TraceFormatError

if TYPE_CHECKING:
    import pandas

_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_.]+")


class Converted(msgspec.Struct):
    """Result of a conversion."""

    streams: list[StreamName] = msgspec.field(default_factory=list)
    events: int = 0
    rows: int = 0
    complaints: list[str] = msgspec.field(default_factory=list)
    """One line each: what is not whole, and what was left out."""


def convert(paths: Sequence[Path], folder: Path, program: str, period_us: int) -> Converted:
    """Write streams of the processes of all of the files into a folder.

    Parameters
    ----------
    program
        Name of the program of the streams.
    period_us
        Period of a step.

    Raises
    ------
    TraceFormatError
        A file is in no format that is known, or there are no calls in any of them; or there is no room.
    """
    catalogue = Catalogue()
    parts = (events for source, path in enumerate(paths) for events in events_of(path, catalogue, source))
    result = write(parts, catalogue, folder, program, period_us)
    if not result.streams:
        reasons = "; ".join(result.complaints).replace(f"{paths[0]}: ", "") or "no events were found"
        raise TraceFormatError(f"{paths[0]}: there are no calls in it ({reasons})")
    return result


def convert_frame(
    frame: pandas.DataFrame, folder: Path, program: str = "frame", period_us: int = 1_000_000
) -> Converted:
    """Write streams of the calls in a pandas frame into a folder; ``run`` then takes ``FOLDER/*.bp``.

    Parameters
    ----------
    frame
        A row for each call: ``function``, ``begin_us`` and ``end_us``, and perhaps ``rank`` and ``thread``.
        Or one for each beginning and end, as Pipit has them: ``Timestamp (ns)``, ``Event Type`` (``Enter``
        and ``Leave``), ``Name``, and perhaps ``Process`` and ``Thread``. In any order of time.
    program, period_us
        As of ``convert``.

    Raises
    ------
    TraceFormatError
        The frame lacks a column or is empty, or there is no room.
    """
    catalogue = Catalogue()
    result = write([frames.events_of(frame, catalogue)], catalogue, folder, program, period_us)
    if not result.streams:
        raise TraceFormatError("there are no calls in the frame")
    return result


def write(
    parts: Iterable[Table], catalogue: Catalogue, folder: Path, program: str, period_us: int
) -> Converted:
    """Write streams of events, which come in any order.

    Raises
    ------
    TraceFormatError
        There is no room.
    """
    result = Converted()
    tracks: set[int] = set()
    eras = Eras()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        spill = Spill(folder)
        try:
            for events in parts:
                result.events += len(events)
                tracks.update(np.unique(events["track"]).tolist())
                eras.add(events)
                spill.put(events)
            used = {catalogue.tracks[track].process for track in tracks}
            ranks = assigned(catalogue.processes, used)
            windows = _of_one_recording(spill.windows(period_us * NS_PER_US), catalogue, eras, ranks)
            _write(windows, catalogue, ranks, folder, program, result)
        finally:
            spill.close()
    except OSError as error:
        raise TraceFormatError(f"{folder}: the streams cannot be written ({error.strerror})") from error
    result.complaints = catalogue.complaints + losses_of(catalogue)
    return result


def losses_of(catalogue: Catalogue) -> list[str]:
    """Return a line for what was left out."""
    losses = {kind: count for kind, count in catalogue.losses.items() if kind not in WITHOUT_LOSS}
    if not losses:
        return []
    kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(losses.items()))
    return [f"left out of the traces: {kinds}"]


def program_name(path: Path) -> str:
    """Return a program's name out of that of a file: ``perfflow.array.pfw`` is of ``perfflow_array``."""
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    # A dash or a dot would end it where streams are found by their names.
    return _NOT_OF_NAMES.sub("_", stem).replace(".", "_").strip("_")[:60] or "trace"


def _of_one_recording(
    windows: Iterable[Table], catalogue: Catalogue, eras: Eras, ranks: Sequence[int]
) -> Iterator[Table]:
    """Leave out events whose time lies years from the others of their process, and say so."""
    kept = eras.kept(catalogue.tracks)
    if said := clocks_apart({ranks[process]: era for process, era in kept.items()}):
        catalogue.complaints.append(said)
    begins, ends = np.zeros((2, len(catalogue.tracks)), np.int64)
    for number, track in enumerate(catalogue.tracks):
        begins[number], ends[number] = kept.get(track.process, (-LATEST_NS, LATEST_NS))
    outside: dict[tuple[int, int], int] = Counter()
    for window in windows:
        times_ns, tracks = window["time_ns"], window["track"]
        is_far = (times_ns < begins[tracks]) | (times_ns > ends[tracks])
        if is_far.any():
            for track, time_ns, kind in window[is_far][["track", "time_ns", "kind"]].tolist():
                process = catalogue.tracks[track].process
                outside[process, time_ns >> PIECE_BITS] += 1
                if kind in (Kind.CALL, Kind.BEGIN):
                    catalogue.lose_calls(Dropped.FAR_TIME, process)
                else:
                    catalogue.losses[Dropped.FAR_TIME] += 1
            window = window[~is_far]
        if len(window):
            yield window
    for (process, piece), count in outside.items():
        era = piece << PIECE_BITS, (piece + 1) << PIECE_BITS
        catalogue.complaints.append(left_out(era, count, kept[process]))


def _write(
    windows: Iterable[Table],
    catalogue: Catalogue,
    ranks: Sequence[int],
    folder: Path,
    program: str,
    result: Converted,
) -> None:
    with ExitStack() as stack:

        def opened(rank: int) -> StreamWriter:
            name = StreamName(program, rank, folder / f"{STREAM_PREFIX}-{program}-{rank}.bp")
            result.streams.append(name)
            return StreamWriter(name.path, BP5)

        streams = Streams(catalogue, program, ranks.__getitem__, opened, stack)
        for window in windows:
            streams.write(window, int(window["time_ns"][-1]))
        streams.finish()
        result.rows = streams.rows
    result.streams.sort()
