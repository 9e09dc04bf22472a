"""Steps of a stream in TAU's layout, made of rows that were handed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chimbuko.core.arrays import Int64Array, UInt64Array
from chimbuko.core.traceschema import NO_DETAILS, ROOT_TIMER_NAME, StreamNames
from chimbuko.instrument.hooks.codes import FOUND
from chimbuko.instrument.tracer.chunks import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    DETAIL_COLUMNS,
    ENTRY,
    EVENT_COLUMNS,
    EXIT,
    OPERATION_COLUMNS,
    RECEIVE,
    ROOT_TIMER,
    SEND,
    TIME_COUNTER_NAME,
    Handover,
    Header,
    ThreadRows,
)
from chimbuko.instrument.tracer.foundcalls import open_timers, settled
from chimbuko.instrument.tracer.laneswitches import LaneSwitches


class Step(NamedTuple):
    """Arrays of one step."""

    events: UInt64Array
    comms: UInt64Array
    counters: UInt64Array
    details: UInt64Array
    operations: UInt64Array


_MESSAGE_COLUMNS = COMM_COLUMNS + DETAIL_COLUMNS
"""Columns of a message with its details, which stand before its time."""

MAIN_THREAD = 0
ROW_BYTES = 48
LARGEST_STEP_BYTES = 4 << 20
"""Size from which a step is cut: readers keep up with 5 MB, and rows of messages exceed ``ROW_BYTES``."""


class _Thread:
    """Rows of one thread that are in no step yet."""

    def __init__(self) -> None:
        self.events = np.empty((0, EVENT_COLUMNS), np.int64)
        self.messages = np.empty((0, _MESSAGE_COLUMNS), np.int64)
        self.counters = np.empty((0, COUNTER_COLUMNS), np.int64)
        self.operations = np.empty((0, OPERATION_COLUMNS), np.int64)
        self.open: list[int] = []
        """Timers that are open after the last event that was cut, the outermost first."""
        self.last_ns = 0
        self.unentered: _Unentered | None = None

    @property
    def arrays(self) -> tuple[Int64Array, ...]:
        return self.events, self.messages, self.counters, self.operations


class _Unentered:
    """Calls that are open in a thread and whose ENTRY is not in its rows.

    Parameters
    ----------
    depth
        Number of calls that are open, and were entered in the rows.
    lowest
        Depth below which no call was entered in the rows.
    """

    def __init__(self, depth: int, lowest: int) -> None:
        self._depth = depth
        self._lowest = lowest

    def removed(self, events: Int64Array) -> Int64Array:
        """Return events without the EXITs of such calls."""
        is_exit = (events[:, 0] & 1).astype(bool)
        depth = self._depth + np.cumsum(np.where(is_exit, -1, 1))
        # Such an EXIT makes the depth fall below that of the root's call, and lower each time.
        lowest = np.minimum.accumulate(np.append(self._lowest, depth))
        self._depth, self._lowest = int(depth[-1]), int(lowest[-1])
        return events[~(is_exit & (depth < lowest[:-1]))]


class StepBuilder:
    """Builder that collects rows until a step is cut. It uses no clock and no files."""

    def __init__(self, header: Header) -> None:
        self.names = StreamNames(
            timers={ROOT_TIMER: ROOT_TIMER_NAME},
            counters={0: TIME_COUNTER_NAME},
            event_types={ENTRY: "ENTRY", EXIT: "EXIT", SEND: "SEND", RECEIVE: "RECV"},
            program=header.program,
        )
        self._rank = header.rank
        self._offset_ns = header.clock_offset_ns
        self._complete_until_ns = 0
        self._threads: dict[int, _Thread] = {MAIN_THREAD: _Thread()}
        self._switches = LaneSwitches()
        if header.is_forked:
            # Its parent began the calls in which a forked process begins.
            self._threads[MAIN_THREAD].unentered = _Unentered(depth=0, lowest=1)

    def add(self, handover: Handover) -> None:
        """Add the rows and names of a handover."""
        self.names.timers |= handover.timers
        self.names.counters |= handover.counters
        self.names.metadata |= {
            (self._rank, thread, key): value for (thread, key), value in handover.metadata.items()
        }
        self._complete_until_ns = handover.complete_until_ns
        for rows in self._switches.divided(handover.threads):
            thread = self._threads.setdefault(rows.thread, _Thread())
            events = self._settled(thread, rows) if rows.events else b""
            thread.events = _in_order(_joined(thread.events, events), len(thread.events))
            thread.messages = _joined(thread.messages, _with_details(rows.comms, rows.details))
            thread.counters = _sorted(_joined(thread.counters, rows.counters))
            thread.operations = _joined(thread.operations, rows.operations)

    def _settled(self, thread: _Thread, rows: ThreadRows) -> bytes:
        """Return events of a thread without EXITs of calls whose ENTRY is not in its rows."""
        events = np.frombuffer(rows.events, np.int64).reshape(-1, EVENT_COLUMNS)
        if (events[:, 0] <= FOUND).any():
            base = int(rows.thread == MAIN_THREAD)
            before = open_timers(thread.open, thread.events[:, 0])
            last_ns = int(thread.events[-1, 1]) if len(thread.events) else thread.last_ns
            events = settled(events, before, last_ns, base)
            if thread.unentered is None:
                thread.unentered = _Unentered(len(before), base)
        if thread.unentered is not None:
            events = thread.unentered.removed(events)
        return events.tobytes()

    @property
    def size_bytes(self) -> int:
        """Size of all rows that are in no step yet."""
        return ROW_BYTES * self.row_count

    @property
    def row_count(self) -> int:
        """Number of rows that are in no step yet."""
        return sum(len(rows) for thread in self._threads.values() for rows in thread.arrays)

    def cut(self) -> list[Step]:
        """Return the steps of all rows up to the time until which they are complete; keep the others."""
        return self._cut_until(self._complete_until_ns)

    def cut_last(self, end_ns: int | None) -> list[Step]:
        """Return the steps of all rows that are left; at least one, which ends the stream.

        Parameters
        ----------
        end_ns
            Time of the program's end, at which the calls still open on its main thread exit;
            None where it is unknown because the program was killed.
        """
        if end_ns is not None:
            main = self._threads[MAIN_THREAD]
            still_open = open_timers(main.open, main.events[:, 0])
            exits = np.array([(timer << 1 | EXIT, end_ns) for timer in reversed(still_open)], np.int64)
            main.events = np.concatenate((main.events, exits.reshape(-1, EVENT_COLUMNS)))
        return self._cut_until(np.iinfo(np.int64).max)

    def cut_last_of_killed(self) -> list[Step]:
        """Return the last steps of a child that was killed, or left by ``os._exit``, as workers do.

        Only the program itself gets an EXIT. Other calls that are open get none, since nobody knows how long
        they took.
        """
        main = self._threads[MAIN_THREAD]
        if open_timers(main.open, main.events[:, 0]):
            end_ns = max(self._complete_until_ns, int(main.events[-1:, -1].max(initial=0)))
            exit_of_root = np.array([(ROOT_TIMER << 1 | EXIT, end_ns)], np.int64)
            main.events = np.concatenate((main.events, exit_of_root))
        return self._cut_until(np.iinfo(np.int64).max)

    def _cut_until(self, until_ns: int) -> list[Step]:
        """Return all rows before ``until_ns``, in steps of the size that readers keep up with."""
        steps = []
        while self.size_bytes > LARGEST_STEP_BYTES:
            times = np.concatenate(
                [rows[:, -1] for thread in self._threads.values() for rows in thread.arrays]
            )
            position = LARGEST_STEP_BYTES // ROW_BYTES
            full_ns = max(int(np.partition(times, position)[position]), int(times.min()) + 1)
            if full_ns >= until_ns:
                break
            steps.append(self._step(full_ns))
        return [*steps, self._step(until_ns)]

    def _step(self, until_ns: int) -> Step:
        events, messages, counters, operations = [], [], [], []
        for number, thread in sorted(self._threads.items()):
            taken, thread.events = _split(thread.events, until_ns)
            thread.open = open_timers(thread.open, taken[:, 0])
            thread.last_ns = int(taken[-1, 1]) if len(taken) else thread.last_ns
            events.append(self._rows(number, taken[:, 0] & 1, taken[:, 0] >> 1, taken[:, 1]))
            taken, thread.messages = _split(thread.messages, until_ns)
            messages.append(self._rows(number, *taken.T))
            taken, thread.counters = _split(thread.counters, until_ns)
            counters.append(self._rows(number, *taken.T))
            taken, thread.operations = _split(thread.operations, until_ns)
            operations.append(self._rows(number, *taken.T))
        all_messages = _by_time(messages)
        details = all_messages[:, -1 - DETAIL_COLUMNS : -1]
        return Step(
            _merged(events),
            np.delete(all_messages, np.s_[-1 - DETAIL_COLUMNS : -1], 1),
            _by_time(counters),
            details if details.any() else NO_DETAILS,
            _by_time(operations),
        )

    def _rows(self, thread: int, *columns: Int64Array) -> UInt64Array:
        """Return rows in TAU's layout: program, rank, thread, the columns, and the time in µs since 1970."""
        *values, time_ns = columns
        # Column by column: to stack and convert 100,000 rows would take twice as long.
        rows = np.empty((len(time_ns), 3 + len(columns)), np.int64)
        rows[:, :3] = 0, self._rank, thread
        for at, column in enumerate(values, 3):
            rows[:, at] = column
        rows[:, -1] = (time_ns + self._offset_ns) // 1000
        return rows.view(np.uint64)


def _joined(rows: Int64Array, more: bytes) -> Int64Array:
    if not more:
        return rows
    return np.concatenate((rows, np.frombuffer(more, np.int64).reshape(-1, rows.shape[1])))


def _in_order(events: Int64Array, known: int) -> Int64Array:
    """Return the events of a thread in order of time; those behind the ``known`` first ones are new.

    A signal's handler adds its events before the one that it interrupts, whose time was taken earlier.
    """
    new = events[max(known - 1, 0) :, -1]
    if (new[1:] < new[:-1]).any():
        np.maximum.accumulate(new, out=new)
    return events


def _sorted(counters: Int64Array) -> Int64Array:
    """Return values of counters in order of time: our own thread adds some of a time that has passed."""
    times = counters[:, -1]
    is_sorted = (times[1:] >= times[:-1]).all()
    return counters if is_sorted else counters[np.argsort(times, kind="stable")]


def _with_details(comms: bytes, details: bytes) -> bytes:
    """Return messages with their details before their time; 0 if they have none."""
    rows = np.frombuffer(comms, np.int64).reshape(-1, COMM_COLUMNS)
    none = np.zeros((len(rows), DETAIL_COLUMNS), np.int64)
    known = np.frombuffer(details, np.int64).reshape(-1, DETAIL_COLUMNS) if details else none
    return np.hstack((rows[:, :-1], known, rows[:, -1:])).tobytes()


def _split(rows: Int64Array, until_ns: int) -> tuple[Int64Array, Int64Array]:
    position = int(np.searchsorted(rows[:, -1], until_ns))
    return rows[:position], rows[position:]


def _merged(blocks: Sequence[UInt64Array]) -> UInt64Array:
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _by_time(blocks: Sequence[UInt64Array]) -> UInt64Array:
    """Return rows sorted by time; rows of one thread and the same µs keep their order."""
    rows = _merged(blocks)
    return rows if len(blocks) == 1 else rows[np.argsort(rows[:, -1], kind="stable")]
