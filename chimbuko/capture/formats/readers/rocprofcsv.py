"""Reads the tables that rocprofv3 writes for each process (``*_trace.csv``): calls of HIP, HSA, ROCTX and the
like, kernels, and copies of memory.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from chimbuko.capture.formats.readers.callrows import CallRows
from chimbuko.capture.formats.readers.events import Catalogue, Dropped
from chimbuko.capture.formats.readers.registry import open_unpacked
from chimbuko.core.arrays import Table

MARKERS: Final = "MARKER"
"""Begin of the domains and kinds of ROCTX, whose calls launch nothing."""
COPY_PREFIX: Final = "MEMORY_COPY_"
_PID: Final = re.compile(r"(?:.*_)?(\d+)_[a-z_]+_trace\.csv(?:\.gz)?")
"""Name of a file, which rocprofv3 begins by the process."""


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Table]:
    """Yield the events of a file, as many at a time as are worth it."""
    named = _PID.fullmatch(path.name)
    rows = CallRows(catalogue)
    with open_unpacked(path) as file, io.TextIOWrapper(file, "utf-8", "replace", newline="") as text:
        for row in csv.DictReader(text):
            try:
                _put(row, named[1] if named else "", source, catalogue, rows)
            except (KeyError, TypeError, ValueError):
                catalogue.losses[Dropped.UNKNOWN_TYPE] += 1
            if rows.is_full:
                yield rows.take()
    yield rows.take()


def _put(row: Mapping[str, str], pid: str, source: int, catalogue: Catalogue, rows: CallRows) -> None:
    """Put a line among the rows.

    Raises
    ------
    KeyError, TypeError, ValueError
        It is no call.
    """
    times_ns = int(row["Start_Timestamp"]), int(row["End_Timestamp"])
    correlation = int(row.get("Correlation_Id") or 0)
    pid = row.get("Process_Id") or pid
    # Tables of one process are one process; a name without its number tells nothing of it.
    process = catalogue.process(("rocprofv3", pid) if pid else (source, "rocprofv3"))
    if kernel := row.get("Kernel_Name"):
        stream = row.get("Stream_Id") or row["Queue_Id"]
        rows.put(*times_ns, rows.gpu_track(process, row["Agent_Id"], stream), kernel, correlation)
    elif direction := row.get("Direction"):
        track = rows.gpu_track(process, row["Destination_Agent_Id"], "copies")
        rows.put(*times_ns, track, copy_name(direction), correlation)
    else:
        is_launching = not row["Domain"].startswith(MARKERS)
        track = catalogue.track(process, int(row["Thread_Id"]))
        catalogue.tracks[track].is_main |= row["Thread_Id"] == pid
        rows.put(*times_ns, track, row["Function"], correlation if is_launching else 0)


def copy_name(direction: str) -> str:
    """Return the name of a copy in a direction such as ``HOST_TO_DEVICE``."""
    return f"memory copy {direction.removeprefix(COPY_PREFIX).lower().replace('_', ' ')}"
