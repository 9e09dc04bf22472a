"""Steps of a stream in TAU's layout, made of rows that were handed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chimbuko.core.arrays import BoolArray, Int64Array, UInt64Array
from chimbuko.core.pauses import pause_of
from chimbuko.core.traceschema import NO_DETAILS, ROOT_TIMER_NAME, StreamNames
from chimbuko.instrument.hooks.codes import CALL_COUNTS, FOUND, LEFT_OUT_FUNCTIONS, NOT_RECORDED, SWITCHED
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


class LaneSwitches:
    """Switches so far: the lane on which each thread is."""

    def __init__(self) -> None:
        self._lanes: dict[int, int] = {}

    def divided(self, threads: Iterable[ThreadRows]) -> Iterator[ThreadRows]:
        """Yield the rows of each lane; a thread that never switches is one lane of its own number."""
        for rows in threads:
            events = np.frombuffer(rows.events, np.int64).reshape(-1, EVENT_COLUMNS)
            is_switch = (events[:, 0] <= SWITCHED) & (events[:, 0] > FOUND)
            if rows.thread in self._lanes or is_switch.any():
                yield from self._divided(rows, events, is_switch)
            else:
                yield rows

    def _divided(self, rows: ThreadRows, events: Int64Array, is_switch: BoolArray) -> Iterator[ThreadRows]:
        switches = events[is_switch]
        lanes = np.append(self._lanes.get(rows.thread, rows.thread), SWITCHED - switches[:, 0])
        self._lanes[rows.thread] = int(lanes[-1])
        of_event = lanes[np.cumsum(is_switch)]
        kept = ~is_switch
        parts = {"events": (events[kept], of_event[kept])}
        widths = {"comms": COMM_COLUMNS, "counters": COUNTER_COLUMNS, "operations": OPERATION_COLUMNS}
        for name, columns in widths.items():
            of_kind = np.frombuffer(getattr(rows, name), np.int64).reshape(-1, columns)
            parts[name] = of_kind, lanes[np.searchsorted(switches[:, 1], of_kind[:, -1], "right")]
        if rows.details:
            details = np.frombuffer(rows.details, np.int64).reshape(-1, DETAIL_COLUMNS)
            parts["details"] = details, parts["comms"][1]
        for lane in sorted({int(lane) for _, of_rows in parts.values() for lane in np.unique(of_rows)}):
            of_lane = {name: values[of_rows == lane].tobytes() for name, (values, of_rows) in parts.items()}
            yield ThreadRows(lane, **of_lane)


LONGEST_UNWINDING_NS = 10_000_000
"""Longest time without a hook after which a call that is open again is taken for the same one: an error
passes 1,000 frames in 1 ms, and a program may call a function again within 10 ms.
"""


def settled(events: Int64Array, before: list[int], last_ns: int, base: int) -> Int64Array:
    """Return events in which the rows of calls that were found open have become EXITs and ENTRYs.

    A call that ended unseen ends with the last event before. After a longer time, one that is open on both
    sides may be two, so it is recorded as two: a call must never seem longer than it was.

    Parameters
    ----------
    before
        Timers that were open before the events, the outermost first.
    last_ns
        Time of the last event before.
    base
        Number of the outermost calls that were never in doubt.
    """
    parts, start = [], 0
    for at in np.flatnonzero(events[:, 0] <= FOUND).tolist():
        part = events[start:at]
        before = open_timers(before, part[:, 0])
        last_ns = int(part[-1, 1]) if len(part) else last_ns
        now_ns = int(events[at, 1])
        start = at + 1 + FOUND - int(events[at, 0])
        found = (events[at + 1 : start, 0] >> 1).tolist()
        same = _common(before[base:], found) if now_ns - last_ns <= LONGEST_UNWINDING_NS else 0
        ended = [(timer << 1 | EXIT, last_ns) for timer in reversed(before[base + same :])]
        begun = [(timer << 1, now_ns) for timer in found[same:]]
        parts += [part, np.array(ended + begun, np.int64).reshape(-1, EVENT_COLUMNS)]
        before, last_ns = before[:base] + found, now_ns
    return np.concatenate((*parts, events[start:]))


def _common(one: list[int], other: list[int]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def open_timers(before: list[int], codes: Int64Array) -> list[int]:
    """Return the open timers, the outermost first, after the events ``codes``; ``before`` were open."""
    if not len(codes):
        return before
    exits = (codes & 1).astype(bool)
    depth = len(before) + np.cumsum(np.where(exits, -1, 1))
    # A call is still open if the depth never falls below that after its entry again.
    lowest_after = np.minimum.accumulate(depth[::-1])[::-1]
    entered = codes[~exits & (lowest_after >= depth)] >> 1
    return before[: max(0, int(lowest_after[0]))] + [int(timer) for timer in entered]


_SAID_LAST = (NOT_RECORDED, LEFT_OUT_FUNCTIONS, CALL_COUNTS)
"""Keys of metadata that change until the end, while a stream has each once."""


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
        # All that a hook found may have been open before.
        if not len(events):
            return events
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
        self._said_last: dict[tuple[int, int, str], str] = {}
        self._pauses: set[int] = set()
        """Numbers of the counters of pauses."""
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
        self._pauses.update(number for number, name in handover.counters.items() if pause_of(name))
        for (thread_number, key), value in handover.metadata.items():
            said = self._said_last if key in _SAID_LAST else self.names.metadata
            said[self._rank, thread_number, key] = value
        self._complete_until_ns = handover.complete_until_ns
        for rows in self._switches.divided(handover.threads):
            thread = self._threads.setdefault(rows.thread, _Thread())
            if rows.events:
                known = len(thread.events)
                thread.events = _in_order(np.concatenate((thread.events, self._settled(thread, rows))), known)
            if rows.comms:
                thread.messages = _joined(thread.messages, _with_details(rows.comms, rows.details))
            if rows.counters:
                thread.counters = _sorted(_joined(thread.counters, rows.counters))
            thread.operations = _joined(thread.operations, rows.operations)

    def _settled(self, thread: _Thread, rows: ThreadRows) -> Int64Array:
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
        return events

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
        return self._cut_all()

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
        return self._cut_all()

    def _cut_all(self) -> list[Step]:
        self.names.metadata |= self._said_last
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
            values, thread.counters = _split(thread.counters, until_ns)
            values = self._in_calls(values, taken, len(thread.open))
            thread.open = open_timers(thread.open, taken[:, 0])
            thread.last_ns = int(taken[-1, 1]) if len(taken) else thread.last_ns
            events.append(self._rows(number, taken[:, 0] & 1, taken[:, 0] >> 1, taken[:, 1]))
            taken, thread.messages = _split(thread.messages, until_ns)
            messages.append(self._rows(number, *taken.T))
            counters.append(self._rows(number, *values.T))
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

    def _in_calls(self, values: Int64Array, events: Int64Array, depth: int) -> Int64Array:
        """Return the values of a thread's counters without pauses that it made in no call, as where it waits
        for work: they explain nothing, and a reader would take their calls for lost.
        """
        if not len(values):
            return values
        outside = depth + np.append(0, np.cumsum(1 - 2 * (events[:, 0] & 1))) <= 0
        if not outside.any():
            return values
        is_outside = outside[np.searchsorted(events[:, 1], values[:, -1], "right")]
        return values[~(is_outside & np.isin(values[:, 0], list(self._pauses)))]

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
