"""Rows of the threads of a process from Python and from its recorder, in the order of time."""

from __future__ import annotations

import itertools

import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.instrument.pythonmpi.source import thread_rows
from chimbuko.instrument.tracer.chunks import ThreadRows

MAIN_THREAD = 0
FOREIGN_THREADS = 1 << 15
"""Number of the first thread that calls MPI and never ran Python: half of what readers take."""


class MergedRows:
    """Rows that wait until all those of earlier times are there.

    Parameters
    ----------
    pid
        Process id, which is that of the main thread, too.
    """

    def __init__(self, pid: int) -> None:
        self._waiting: dict[int, list[Int64Array]] = {}
        """Rows of each thread."""
        self._native: dict[int, list[Int64Array]] = {}
        """Rows of the recorder by the native ids of threads, whose numbers only the rows of Python tell."""
        self._python_ns: dict[int, int] = {}
        """Time of the last event of Python of each thread."""
        self._threads = {pid: MAIN_THREAD}
        """Numbers of the threads, by their native ids."""
        self._foreign = itertools.count(FOREIGN_THREADS)

    def add_python(self, thread: int, native_id: int, arrays: list[Int64Array]) -> None:
        """Add rows of Python, as of ``Source.arrays``."""
        if thread != MAIN_THREAD:
            self._threads[native_id] = thread
        if len(times := arrays[0][:, -1]):
            # A signal's handler adds its events before the one that it interrupts.
            times[0] = max(int(times[0]), self._python_ns.get(thread, 0))
            np.maximum.accumulate(times, out=times)
            self._python_ns[thread] = int(times[-1])
        _add(self._waiting, thread, arrays)

    def add_native(self, native_id: int, arrays: list[Int64Array]) -> None:
        """Add rows of the recorder."""
        _add(self._native, native_id, arrays)

    def take(self, until_ns: int) -> list[ThreadRows]:
        """Take the rows before a time, of which all are there, also those that tell the threads."""
        for native_id, arrays in list(self._native.items()):
            ready, self._native[native_id] = _split(arrays, until_ns)
            if any(map(len, ready)):
                if native_id not in self._threads:
                    self._threads[native_id] = next(self._foreign)
                _add(self._waiting, self._threads[native_id], ready)
        taken = []
        for thread, arrays in list(self._waiting.items()):
            ordered = [rows[np.argsort(rows[:, -1], kind="stable")] for rows in arrays]
            ready, self._waiting[thread] = _split(ordered, until_ns)
            if any(map(len, ready)):
                taken.append(thread_rows(thread, *ready))
        return taken

    def number_of(self, native_id: int) -> int | None:
        """Return the number of a thread; None as long as none of its rows was taken."""
        return self._threads.get(native_id)

    @property
    def count(self) -> int:
        """Number of the recorder's rows that wait."""
        return sum(len(rows) for arrays in self._native.values() for rows in arrays)


def _add(waiting: dict[int, list[Int64Array]], thread: int, arrays: list[Int64Array]) -> None:
    before = waiting.get(thread)
    if before is not None:
        arrays = [np.concatenate(pair) for pair in zip(before, arrays, strict=True)]
    waiting[thread] = arrays


def _split(arrays: list[Int64Array], until_ns: int) -> tuple[list[Int64Array], list[Int64Array]]:
    positions = [int(np.searchsorted(rows[:, -1], until_ns)) for rows in arrays]
    split = [(rows[:at], rows[at:]) for rows, at in zip(arrays, positions, strict=True)]
    return [ready for ready, _ in split], [rest for _, rest in split]
