"""Rows of a Python program and those of its recorder, put into the order of time, thread by thread.

Both have the same clock. A handover of the program has all its rows up to a time, and the rings are read
after it: so the rows up to that time are all there, and the later ones wait for the next handover.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.sourcecensus import CALL_COUNTS
from chimbuko.core.traceschema import NOT_RECORDED
from chimbuko.instrument.recorder.layout import FIRST_QUEUE
from chimbuko.instrument.recorder.recording import RECORDER, Recording
from chimbuko.instrument.recorder.ringfolder import (
    Listing,
    clear_up,
    in_order_of_start,
    lock_as_drained,
    remove_ring_folder,
)
from chimbuko.instrument.tracer.chunks import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    DETAIL_COLUMNS,
    EVENT_COLUMNS,
    OPERATION_COLUMNS,
    Handover,
    ThreadRows,
)

# Rows of a thread as arrays, with numbers of names that several sources share.


class Renumbering:
    """Numbers of the names of one source among those of several.

    Parameters
    ----------
    known
        Number of the first name that gets another number.
    fresh
        Numbers that no name has yet.
    """

    def __init__(self, known: int, fresh: Iterator[int]) -> None:
        self._numbers = np.arange(known)
        self._fresh = fresh

    def of(self, numbers: Int64Array) -> Int64Array:
        """Return the new numbers."""
        self._reach(int(numbers.max(initial=0)))
        found: Int64Array = self._numbers[numbers]
        return found

    def names(self, names: Mapping[int, str]) -> dict[int, str]:
        """Return the names by their new numbers."""
        self._reach(max(names, default=0))
        return {int(self._numbers[number]): name for number, name in names.items()}

    def _reach(self, highest: int) -> None:
        missing = highest + 1 - len(self._numbers)
        if missing > 0:
            self._numbers = np.append(self._numbers, list(itertools.islice(self._fresh, missing)))


class Source:
    """Numbers of the timers and the counters of one source."""

    def __init__(self, timers: Renumbering, counters: Renumbering) -> None:
        self.timers = timers
        self.counters = counters

    def arrays(self, rows: ThreadRows) -> list[Int64Array]:
        """Return the rows of a thread, as arrays with the numbers that they have for all sources."""
        events = _array(rows.events, EVENT_COLUMNS).copy()
        is_call = events[:, 0] >= 0
        codes = events[is_call, 0]
        events[is_call, 0] = self.timers.of(codes >> 1) << 1 | codes & 1
        comms = _array(rows.comms, COMM_COLUMNS)
        details = _array(rows.details or bytes(8 * DETAIL_COLUMNS * len(comms)), DETAIL_COLUMNS)
        counters = _array(rows.counters, COUNTER_COLUMNS).copy()
        counters[:, 0] = self.counters.of(counters[:, 0])
        messages = np.hstack((comms[:, :-1], details, comms[:, -1:]))
        return [events, messages, counters, _array(rows.operations, OPERATION_COLUMNS)]


def _array(rows: bytes, columns: int) -> Int64Array:
    return np.frombuffer(rows, np.int64).reshape(-1, columns)


def thread_rows(
    thread: int, events: Int64Array, messages: Int64Array, counters: Int64Array, operations: Int64Array
) -> ThreadRows:
    """Return the rows of a thread, of the arrays of ``Source.arrays``."""
    details = messages[:, -1 - DETAIL_COLUMNS : -1]
    comms = np.delete(messages, np.s_[-1 - DETAIL_COLUMNS : -1], 1)
    return ThreadRows(
        thread,
        *(events.tobytes(), comms.tobytes(), counters.tobytes(), details.tobytes(), operations.tobytes()),
    )


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


COUNTED = ("seen", "recorded")
"""Counts of the recorder alone."""


class Joining:
    """Joining of the rows of one process.

    Parameters
    ----------
    rings, pid, rank
        Folder of the rings, and the process's id and rank.
    timers, counters
        Number of names that the program handed over before its recorder was loaded.
    """

    def __init__(self, rings: str, pid: int, rank: int, timers: int, counters: int) -> None:
        self._folder = Path(rings)
        self._pid = pid
        self._rank = rank
        self._lock: int | None = None
        # The folder of a program that has died already may be gone: another one clears up.
        with suppress(OSError):
            self._lock = lock_as_drained(self._folder)
        clear_up()
        self._listing = Listing(self._folder)
        self._recording: Recording | None = None
        fresh_timers, fresh_counters = itertools.count(timers), itertools.count(counters)
        self._python = Source(Renumbering(timers, fresh_timers), Renumbering(counters, fresh_counters))
        self._native = Source(Renumbering(1, fresh_timers), Renumbering(1, fresh_counters))
        self._rows = MergedRows(pid)
        self._queues: dict[tuple[int, str], str] = {}
        """Metadata of queues of GPUs, by the ids that stand for those of threads."""
        self._until_ns = 0
        self._not_recorded = ""

    def close(self) -> None:
        """Remove the rings."""
        remove_ring_folder(self._folder)
        if self._lock is not None:
            os.close(self._lock)

    def join(self, handover: Handover) -> Handover:
        """Return what the program hands over, with what its recorder has written until then."""
        self._not_recorded = handover.metadata.get((MAIN_THREAD, NOT_RECORDED), self._not_recorded)
        for rows in handover.threads:
            self._rows.add_python(rows.thread, rows.native_id, self._python.arrays(rows))
        self._until_ns = handover.complete_until_ns
        joined = self._released(self._taken(handover.is_last), self._until_ns)
        return handover._replace(
            threads=joined.threads,
            timers=self._python.timers.names(handover.timers) | joined.timers,
            counters=self._python.counters.names(handover.counters) | joined.counters,
            metadata=handover.metadata | joined.metadata,
        )

    def rest(self) -> Handover:
        """Return all that is left of a program that was killed."""
        return self._released(self._taken(is_last=True), np.iinfo(np.int64).max)

    def _taken(self, is_last: bool) -> Handover | None:
        """Take what the recorder has written; None as long as the program has not called MPI."""
        if self._recording is None:
            self._find_recording()
        if (recording := self._recording) is None:
            return None
        # A process that has ended in order, or goes on, has no end that is worth a word.
        is_sound = not int(recording.process.field("crash")["signal"])
        now_ns = self._until_ns
        native = recording.last(now_ns, is_sound) if is_last else recording.take(now_ns)
        for rows in native.threads:
            self._rows.add_native(rows.thread, self._native.arrays(rows))
        return native

    def _find_recording(self) -> None:
        for name in in_order_of_start(self._listing.news()):
            if name.startswith(f"{self._pid}-"):
                try:
                    self._recording = Recording(self._folder / name, is_beside=True)
                except TraceFormatError as error:
                    self._not_recorded = f"MPI calls: {error}"

    def _released(self, native: Handover | None, until_ns: int) -> Handover:
        """Return the rows before a time, with the names and metadata of the recorder."""
        threads = self._rows.take(until_ns)
        if native is None:
            return Handover(self._until_ns, threads, {}, {}, self._said({}))
        timers = self._native.timers.names(native.timers)
        counters = self._native.counters.names(native.counters)
        if self._recording is not None:
            self._recording.note_stored(self._rows.count)
        return Handover(self._until_ns, threads, timers, counters, self._said(native.metadata))

    def _said(self, metadata: Mapping[tuple[int, str], str]) -> dict[tuple[int, str], str]:
        """Return what the recorder says of the process, with what Python says."""
        self._queues |= {key: value for key, value in metadata.items() if key[0] >= FIRST_QUEUE}
        said = {
            (MAIN_THREAD, key): value for (thread, key), value in metadata.items() if thread == MAIN_THREAD
        }
        said |= self._about_queues()
        said[MAIN_THREAD, "Recorder"] = RECORDER
        if (counts := said.get((MAIN_THREAD, CALL_COUNTS))) is not None:
            # The writer counts what it has written, of both; what comes after the end is no loss.
            reasons = {key: value for key, value in json.loads(counts).items() if key not in COUNTED}
            said[MAIN_THREAD, CALL_COUNTS] = json.dumps(reasons)
        is_gone = self._recording is None and not self._folder.exists()
        gone = "MPI calls: somebody has removed what the recorder had written" if is_gone else ""
        unseen = [self._not_recorded, gone, said.get((MAIN_THREAD, NOT_RECORDED), ""), self._other_rank()]
        return said | ({(MAIN_THREAD, NOT_RECORDED): "; ".join(filter(None, unseen))} if any(unseen) else {})

    def _about_queues(self) -> dict[tuple[int, str], str]:
        """Take what is known of the queues of GPUs whose rows have been taken, and so have a number."""
        said = {}
        for native_id, key in list(self._queues):
            if (number := self._rows.number_of(native_id)) is not None:
                said[number, key] = self._queues.pop((native_id, key))
        return said

    def _other_rank(self) -> str:
        """Return what is wrong where MPI gives the process another rank than its launcher has stated."""
        process = None if self._recording is None else self._recording.process
        # A program that was started alone is rank 0 of its own world.
        if process is None or process.number("world_size") < 2:
            return ""
        if (known := process.number("world_rank")) == self._rank:
            return ""
        return f"whom messages came from: this is rank {known} for MPI; trace it with --rank {known}"
