"""Rows of a Python program and those of its recorder, put into the order of time, thread by thread.

Both have the same clock. A handover of the program has all its rows up to a time, and the rings are read after
it: so the rows up to that time are all there, and the later ones wait for the next handover.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.sourcecensus import CALL_COUNTS
from chimbuko.core.traceschema import NOT_RECORDED
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

MAIN_THREAD = 0
FOREIGN_THREADS = 1 << 15
"""Number of the first thread that calls MPI and never ran Python: half of what readers take."""

COUNTED = ("seen", "recorded")


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


class Joining:
    """Joining of the rows of one process.

    Parameters
    ----------
    rings, pid
        Folder of the rings, and process id.
    timers, counters
        Number of names that the program handed over before its recorder was loaded.
    """

    def __init__(self, rings: str, pid: int, timers: int, counters: int) -> None:
        self._folder = Path(rings)
        self._pid = pid
        self._lock = lock_as_drained(self._folder)
        clear_up()
        self._listing = Listing(self._folder)
        self._recording: Recording | None = None
        fresh_timers, fresh_counters = itertools.count(timers), itertools.count(counters)
        self._python = Source(Renumbering(timers, fresh_timers), Renumbering(counters, fresh_counters))
        self._native = Source(Renumbering(1, fresh_timers), Renumbering(1, fresh_counters))
        self._waiting: dict[int, list[Int64Array]] = {}
        """Rows of each thread that are in no handover yet."""
        self._python_ns: dict[int, int] = {}
        """Time of the last event of Python of each thread."""
        self._threads = {pid: MAIN_THREAD}
        """Numbers of the threads, by their native ids."""
        self._foreign = itertools.count(FOREIGN_THREADS)
        self._until_ns = 0
        self._not_recorded = ""

    def close(self) -> None:
        """Remove the rings."""
        remove_ring_folder(self._folder)
        os.close(self._lock)

    def join(self, handover: Handover) -> Handover:
        """Return what the program hands over, with what its recorder has written until then."""
        self._until_ns = handover.complete_until_ns
        self._not_recorded = handover.metadata.get((MAIN_THREAD, NOT_RECORDED), self._not_recorded)
        for rows in handover.threads:
            self._add_python(rows)
        native = self._taken(handover.is_last)
        joined = self._released(native, self._until_ns)
        return handover._replace(
            threads=joined.threads,
            timers=self._python.timers.names(handover.timers) | joined.timers,
            counters=self._python.counters.names(handover.counters) | joined.counters,
            metadata=handover.metadata | joined.metadata,
        )

    def rest(self) -> Handover:
        """Return all that is left of a program that was killed."""
        return self._released(self._taken(is_last=True), np.iinfo(np.int64).max)

    def _add_python(self, rows: ThreadRows) -> None:
        if rows.thread != MAIN_THREAD:
            self._threads[rows.native_id] = rows.thread
        arrays = self._python.arrays(rows)
        if len(times := arrays[0][:, -1]):
            # A signal's handler adds its events before the one that it interrupts.
            times[0] = max(int(times[0]), self._python_ns.get(rows.thread, 0))
            np.maximum.accumulate(times, out=times)
            self._python_ns[rows.thread] = int(times[-1])
        self._add(rows.thread, arrays)

    def _add(self, thread: int, arrays: list[Int64Array]) -> None:
        before = self._waiting.get(thread)
        if before is not None:
            arrays = [np.concatenate(pair) for pair in zip(before, arrays, strict=True)]
        self._waiting[thread] = arrays

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
            if rows.thread not in self._threads:
                self._threads[rows.thread] = next(self._foreign)
            self._add(self._threads[rows.thread], self._native.arrays(rows))
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
        threads = []
        for thread, arrays in list(self._waiting.items()):
            ordered = [rows[np.argsort(rows[:, -1], kind="stable")] for rows in arrays]
            positions = [int(np.searchsorted(rows[:, -1], until_ns)) for rows in ordered]
            ready = [rows[:position] for rows, position in zip(ordered, positions, strict=True)]
            self._waiting[thread] = [
                rows[position:] for rows, position in zip(ordered, positions, strict=True)
            ]
            if any(map(len, ready)):
                threads.append(_thread_rows(thread, *ready))
        if native is None:
            return Handover(self._until_ns, threads, {}, {}, self._said({}))
        timers = self._native.timers.names(native.timers)
        counters = self._native.counters.names(native.counters)
        if self._recording is not None:
            waiting = sum(len(rows) for arrays in self._waiting.values() for rows in arrays)
            self._recording.note_stored(waiting)
        return Handover(self._until_ns, threads, timers, counters, self._said(native.metadata))

    def _said(self, metadata: Mapping[tuple[int, str], str]) -> dict[tuple[int, str], str]:
        """Return what the recorder says of the process, with what Python says."""
        said = {(MAIN_THREAD, key): value for (_, key), value in metadata.items() if key != "tid"}
        said[MAIN_THREAD, "Recorder"] = RECORDER
        if (counts := said.get((MAIN_THREAD, CALL_COUNTS))) is not None:
            # The writer knows how many it has written, of both; what the rings still held at the end is no loss.
            reasons = {key: value for key, value in json.loads(counts).items() if key not in COUNTED}
            said[MAIN_THREAD, CALL_COUNTS] = json.dumps(reasons)
        unseen = [text for text in (self._not_recorded, said.get((MAIN_THREAD, NOT_RECORDED), "")) if text]
        return said | ({(MAIN_THREAD, NOT_RECORDED): "; ".join(unseen)} if unseen else {})


def _array(rows: bytes, columns: int) -> Int64Array:
    return np.frombuffer(rows, np.int64).reshape(-1, columns)


def _thread_rows(
    thread: int, events: Int64Array, messages: Int64Array, counters: Int64Array, operations: Int64Array
) -> ThreadRows:
    details = messages[:, -1 - DETAIL_COLUMNS : -1]
    comms = np.delete(messages, np.s_[-1 - DETAIL_COLUMNS : -1], 1)
    return ThreadRows(
        thread,
        *(events.tobytes(), comms.tobytes(), counters.tobytes(), details.tobytes(), operations.tobytes()),
    )
