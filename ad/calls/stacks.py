"""Call stacks of one stream, which stay open across its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels import stack
from chimbuko.ad.kernels.calls import ENTRY, EXIT, build_calls
from chimbuko.ad.kernels.points import chain_points
from chimbuko.ad.kernels.stack import CALL, POINT, THREAD
from chimbuko.core.arrays import Int32Array, Table, as_table
from chimbuko.core.calls.census import LOST_EXIT, TOO_DEEP
from chimbuko.core.traceschema import (
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    MAX_TIME_US,
    MPI_PREFIX,
    EventType,
    StreamNames,
    TraceStep,
)

CACHE_LINE_BYTES = 64

LOSS_NAMES = {
    stack.BAD_ORIGIN: "rows of another program or rank",
    stack.BAD_THREAD: "rows with an absurd thread",
    stack.BAD_EVENT_TYPE: "rows with an unknown event type",
    stack.BAD_TIMER: "rows with an absurd timer",
    stack.EXIT_WITHOUT_ENTRY: "EXIT without ENTRY",
    stack.BAD_TIME: "messages and counters with an absurd time",
    stack.LOST_EXIT: LOST_EXIT,
    stack.TIME_REVERSED: "rows whose time is absurd or runs backwards",
    stack.UNNAMED_TIMER: "rows of a timer not named yet",
    stack.MESSAGE_OUTSIDE_CALLS: "messages outside of calls",
    stack.COUNTER_OUTSIDE_CALLS: "counters outside of calls",
    stack.TOO_DEEP: TOO_DEEP,
}
NAMED_IN_LOST_STEP = "rows of a timer whose name was in a lost step"

MAIN_THREAD = 0
"""TAU's id of the main thread."""
NO_STEP = -1

_OF_THE_STEP = (
    "calls",
    "_item",
    "_thread_numbers",
    "_points",
    "_attached",
    "message_calls",
    "counter_calls",
)
"""Attributes that mean nothing once the next step has been read, or that other attributes repeat."""


class Call(NamedTuple):
    """One row of the call table as plain numbers; fields as in ``CALL``."""

    entry: int
    exit: int
    child_us: int
    function: int
    parent: int
    depth: int
    children: int
    messages: int
    step: int
    row: int
    path: int
    spent_us: int
    thread: int
    doubts: int
    at_times_us: float


class CallStacks:
    """Call stacks of one stream, rebuilt step by step.

    After ``build`` the attributes describe the calls of that step, until the next one:

    calls
        Table of calls: ``carried`` ones that were open before, then one per ENTRY.
    count, carried
        Rows of the table in use, and how many of them were carried over.
    message_calls, counter_calls
        Call that each message and counter value was attached to, -1 for none; int32[messages],
        int32[counters].
    losses
        Running totals of losses by kind, int64[LOSS_KINDS].
    interval_us
        First and last time of a used row; None if there is none.

    Parameters
    ----------
    rank
        Rows of any other rank are lost rows.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.calls = _table(CALL, 0)
        self._item = self.calls.item
        self.threads = _table(THREAD, 4)
        self.count = 0
        self.carried = 0
        self.losses = np.zeros(stack.LOSS_KINDS, np.int64)
        self.is_named = np.zeros(0, np.uint8)
        self.message_calls = np.empty(0, np.int32)
        self.counter_calls = np.empty(0, np.int32)
        self.gap_steps = 0
        self.interval_us: tuple[int, int] | None = None
        self._thread_numbers = np.full(stack.MAX_THREAD_ID + 1, stack.NONE, np.int32)
        self._points = _table(POINT, 0)
        self._attached = np.empty(0, np.int32)
        self._is_mpi = np.zeros(0, np.uint8)
        self._named = 0
        self._seen = np.zeros((4, 0), np.uint8)
        self._progress = np.zeros(stack.PROGRESS_CELLS, np.int64)
        self.last_step = NO_STEP
        """Last step that was read."""
        self.gap_us = 0
        """Time of threads in gaps, which belongs to no call."""
        self._in_gap: dict[int, int] = {}
        """Last time before a gap, by thread, for threads that have had no event since."""

    def __getstate__(self) -> dict[str, Any]:
        """Return only what outlives a step: the open calls, and not the thousands that have ended."""
        self.carried = stack.carry_open(self.calls, self.threads, self._progress, self.losses, 0)
        self.count = self.carried
        kept = {name: value for name, value in self.__dict__.items() if name not in _OF_THE_STEP}
        return kept | {"open": self.calls[: self.carried].copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        opened = state.pop("open")
        self.__init__(state["rank"])  # type: ignore[misc]
        self.__dict__.update(state)
        self.carried = 0
        self._reserve_calls(len(opened))
        self.calls[: len(opened)] = opened
        self.carried = len(opened)
        self._item = self.calls.item
        self._thread_numbers[self.threads["id"][: self.thread_count]] = np.arange(self.thread_count)

    @property
    def timers(self) -> int:
        """Upper bound (exclusive) of the timer ids."""
        return len(self.is_named)

    @property
    def thread_count(self) -> int:
        """Number of threads seen so far."""
        return int(self._progress[stack.THREADS])

    @property
    def open_calls(self) -> int:
        """Number of calls that are open after the step."""
        tops = self.threads["top"][: self.thread_count]
        return int((self.calls["depth"][tops[tops != stack.NONE]] + 1).sum())

    def numbers_of(self, threads: Int32Array) -> Int32Array:
        """Return the number of each of TAU's threads in ``calls``, -1 where none was seen; int32[n]."""
        numbers: Int32Array = self._thread_numbers[threads]
        return numbers

    @property
    def is_main_open(self) -> bool:
        """Whether a call of the main thread is open."""
        number = self._thread_numbers[MAIN_THREAD]
        return bool(number != stack.NONE and self.threads["top"][number] != stack.NONE)

    def build(self, step: TraceStep, names: StreamNames) -> None:
        """Rebuild the calls of the next step.

        A jump in the step number is a gap: what was open before it is unknown from then on.
        """
        self._note_names(names)
        is_gap = self._note_gap(step.step)
        self.carried = stack.carry_open(
            self.calls, self.threads, self._progress, self.losses, stack.UNKNOWN if is_gap else 0
        )
        if is_gap:
            last_us = self.threads["last_time"][: self.thread_count].tolist()
            self._in_gap = dict(enumerate(last_us)) | self._in_gap
        if self._in_gap:
            self._leave_out_gaps(step)
        self._reserve_calls(self.carried + len(step.events) + 1)
        messages = len(step.comms)
        self._chain_points(step)
        kinds = _event_kinds(names)
        self._progress[stack.NEXT_ROW] = 0
        self._progress[stack.FIRST_US], self._progress[stack.LAST_US] = MAX_TIME_US, 0
        while True:
            need = build_calls(
                step.events,
                messages,
                step.step,
                np.uint64(self.rank),
                kinds,
                self.calls,
                self._thread_numbers,
                self.threads,
                self._points,
                self._attached,
                self._seen,
                self._is_mpi,
                self.is_named,
                self._progress,
                self.losses,
            )
            if need == stack.DONE:
                break
            if need == stack.NEED_THREADS:
                self._reserve_threads(2 * len(self.threads))
            else:
                timer = int(step.events[self._progress[stack.NEXT_ROW], EVENT_TIMER])
                self._reserve_timers(timer + 1)
        _, count, _, first_us, last_us = self._progress.tolist()
        self.count = count
        self.interval_us = (first_us, last_us) if last_us else None
        self._item = self.calls.item
        self.message_calls = self._attached[:messages]
        self.counter_calls = self._attached[messages : messages + len(step.counters)]

    def call(self, row: int) -> Call:
        """Return one row of the call table."""
        return Call._make(self._item(row))

    def lost(self) -> dict[str, int]:
        """Running totals of losses by kind; only kinds that occurred."""
        losses = self.losses.copy()
        # The EXITs of a recursion come later, and find no call; where EXITs are lost, they pile up calls.
        later = min(losses[stack.TOO_DEEP], losses[stack.EXIT_WITHOUT_ENTRY])
        losses[stack.EXIT_WITHOUT_ENTRY] -= later
        if self.gap_steps or losses[stack.LOST_EXIT]:
            losses[stack.LOST_EXIT] += losses[stack.TOO_DEEP] - later
            losses[stack.TOO_DEEP] = later
        lost = {LOSS_NAMES[kind]: int(n) for kind, n in enumerate(losses) if n}
        if self.gap_steps and LOSS_NAMES[stack.UNNAMED_TIMER] in lost:
            # Names come once, in the step of the timer's first row.
            lost[NAMED_IN_LOST_STEP] = lost.pop(LOSS_NAMES[stack.UNNAMED_TIMER])
        return lost

    def _note_names(self, names: StreamNames) -> None:
        if len(names.timers) == self._named:
            return
        self._named = len(names.timers)
        self._reserve_timers(max(names.timers, default=-1) + 1)
        for timer, name in names.timers.items():
            self.is_named[timer] = 1
            self._is_mpi[timer] = name.startswith(MPI_PREFIX)

    def _note_gap(self, step: int) -> bool:
        expected = self.last_step + 1
        self.last_step = step
        if step == expected:
            return False
        self.gap_steps += max(step - expected, 0)
        return True

    def _leave_out_gaps(self, step: TraceStep) -> None:
        """Take the time of gaps from the calls that were open across them."""
        threads = self.threads
        for number, last_us in list(self._in_gap.items()):
            of_thread = np.flatnonzero(step.events[:, EVENT_THREAD] == threads["id"][number])
            if len(of_thread):
                del self._in_gap[number]
                gap_us = max(0, int(step.events[of_thread[0], EVENT_TIME]) - last_us)
                top = threads["top"][number]
                if top != stack.NONE and gap_us < MAX_TIME_US:
                    self.calls["spent_us"][top] += gap_us
                    self.gap_us += gap_us

    def end(self, steps: int) -> None:
        """Note that the stream had ``steps`` steps: those that were never read are a gap."""
        self.gap_steps += max(steps - 1 - self.last_step, 0)
        self.last_step = max(self.last_step, steps - 1)

    def _chain_points(self, step: TraceStep) -> None:
        count = len(step.comms) + len(step.counters)
        if len(self._points) < count:
            self._points = _table(POINT, _with_room(count))
            self._attached = np.empty(len(self._points), np.int32)
        while (
            chain_points(
                step.comms,
                step.counters,
                np.uint64(self.rank),
                self._points,
                self._attached,
                self._thread_numbers,
                self.threads,
                self._progress,
                self.losses,
            )
            != stack.DONE
        ):
            self._reserve_threads(2 * len(self.threads))

    def _reserve_calls(self, count: int) -> None:
        if count > len(self.calls):
            larger = _table(CALL, _with_room(count))
            larger[: self.carried] = self.calls[: self.carried]
            self.calls = larger

    def _reserve_threads(self, count: int) -> None:
        larger = _table(THREAD, count)
        larger[: len(self.threads)] = self.threads
        self.threads = larger
        self._seen = _grown(self._seen, (count, self._seen.shape[1]))

    def _reserve_timers(self, count: int) -> None:
        if count <= self.timers:
            return
        count = max(count, 2 * self.timers, 64)
        self.is_named = _grown(self.is_named, (count,))
        self._is_mpi = _grown(self._is_mpi, (count,))
        self._seen = _grown(self._seen, (self._seen.shape[0], count))


def _table(dtype: np.dtype[np.void], rows: int) -> Table:
    """Return a table that begins at a cache line: a call takes one, and with 32 threads two would cost a
    quarter more.
    """
    memory = np.zeros(rows * dtype.itemsize + CACHE_LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE_BYTES
    return as_table(memory[begin : begin + rows * dtype.itemsize].view(dtype))


def _event_kinds(names: StreamNames) -> npt.NDArray[np.uint8]:
    entry, exit_ = names.event_type_id(EventType.ENTRY), names.event_type_id(EventType.EXIT)
    kinds = np.zeros(max(entry, exit_) + 2, np.uint8)
    kinds[entry], kinds[exit_] = ENTRY, EXIT
    return kinds


def _with_room(rows: int) -> int:
    """Return a number of rows with reserve, to be reused from step to step: page faults of fresh memory cost
    more than the analysis.
    """
    return rows + rows // 4 + 1024


def _grown(array: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    larger = np.zeros(shape, np.uint8)
    larger[tuple(slice(0, length) for length in array.shape)] = array
    return larger
