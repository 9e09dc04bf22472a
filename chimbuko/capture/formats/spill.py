"""Brings events in order of time, in bounded memory: sorted runs on a disk, and windows of all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from chimbuko.capture.formats.readers.events import EVENT, Kind
from chimbuko.core.arrays import Int64Array, Table

RUN_ROWS: Final = 1 << 19
"""Number of rows that are sorted at once, which take 20 MB."""
WINDOW_ROWS: Final = 1 << 19


class Spill:
    """Events on a disk, all of which are written before the first is read.

    Parameters
    ----------
    folder
        Folder of the temporary file.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._lengths: list[int] = []
        self._held: list[Table] = []
        self._held_rows = 0

    def put(self, events: Table) -> None:
        """Some more; of events of one time those that come first stay first.

        Raises
        ------
        OSError
            There is no room for them.
        """
        if len(events):
            self._held.append(events)
            self._held_rows += len(events)
        if self._held_rows >= RUN_ROWS:
            self._write_run()

    def windows(self, period_ns: int) -> Iterator[Table]:
        """Yield all events in order of time, one period at a time; a period with many events is split.

        Empty periods are left out.
        """
        self._write_run()
        self._file.flush()
        runs = self._runs()
        at = np.zeros(len(runs), np.int64)
        while (now_ns := _next_ns(runs, at)) is not None:
            ends = _ends(runs, at, now_ns, period_ns)
            parts = [run[begin:end] for run, begin, end in zip(runs, at.tolist(), ends.tolist(), strict=True)]
            at = ends
            yield ordered(np.concatenate(parts))

    def close(self) -> None:
        """Give the room back."""
        self._file.close()

    def _write_run(self) -> None:
        if not self._held:
            return
        run = ordered(np.concatenate(self._held))
        self._held, self._held_rows = [], 0
        self._file.write(run.tobytes())
        self._lengths.append(len(run))

    def _runs(self) -> list[Table]:
        if not self._lengths:
            return []
        whole = np.memmap(self._file, EVENT, "r")
        return np.split(whole, np.cumsum(self._lengths)[:-1])


def ordered(events: Table) -> Table:
    """Order rows by time; a call comes before those that it contains although they begin with it."""
    is_call = events["kind"] == Kind.CALL
    lengths = np.where(is_call, -events["value"], 0)
    return events[np.lexsort((lengths, is_call, events["time_ns"]))]


def _next_ns(runs: list[Table], at: Int64Array) -> int | None:
    times = [
        int(run["time_ns"][begin]) for run, begin in zip(runs, at.tolist(), strict=True) if begin < len(run)
    ]
    return min(times, default=None)


def _ends(runs: list[Table], at: Int64Array, now_ns: int, period_ns: int) -> Int64Array:
    """Up to where each run lies within the period that contains a time, or within a part of it."""
    end_ns = (now_ns // period_ns + 1) * period_ns
    while True:
        ends = np.array([int(np.searchsorted(run["time_ns"], end_ns)) for run in runs], np.int64)
        if (ends - at).sum() <= WINDOW_ROWS or end_ns <= now_ns + 1:
            return np.maximum(ends, at)
        end_ns = now_ns + max(1, (end_ns - now_ns) // 2)
