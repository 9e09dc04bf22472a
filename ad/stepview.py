"""One analysed step as windows see it: neighbours, ancestors, messages, each worked out when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.judge import group_by_thread
from chimbuko.ad.kernels.stack import LOST, NONE
from chimbuko.ad.stacks import CallStacks
from chimbuko.config import AnalysisConfig
from chimbuko.records import CounterValue, Message, call_id
from chimbuko.trace.schema import CommColumn, CounterColumn, EventType, StreamNames, TraceStep

Key = tuple[int, int]
"""Step and row of a call's ENTRY: its identity within a stream."""


@dataclass(frozen=True)
class StreamIdentity:
    """Whose stream it is; part of every record."""

    program: int
    rank: int
    node: str

    def call_id(self, key: Key) -> str:
        """Id of one of the stream's calls."""
        return call_id(self.program, self.rank, *key)


@dataclass
class Neighbour:
    """One call as a member of windows, kept up to date while it is open."""

    key: Key
    function: str
    entry_us: int
    parent: Key | None
    depth: int
    exit_us: int = 0
    is_anomaly: bool = False
    is_lost: bool = False
    messages: list[Message] = field(default_factory=list)
    counters: list[CounterValue] = field(default_factory=list)
    left_out: int = 0

    @property
    def is_complete(self) -> bool:
        """Nothing more will be learned of it."""
        return self.exit_us > 0 or self.is_lost


class StepView:
    """What windows need to know of one step.

    Parameters
    ----------
    anomalies
        Rows of the call table that were flagged in this step.
    interval_us
        Start and end of the step.
    """

    def __init__(
        self,
        step: TraceStep,
        names: StreamNames,
        stacks: CallStacks,
        anomalies: set[int],
        interval_us: tuple[int, int],
        identity: StreamIdentity,
        config: AnalysisConfig,
    ) -> None:
        self.step = step
        self.stacks = stacks
        self.start_us, self.end_us = interval_us
        self._anomalies = anomalies
        self._names = names
        self._identity = identity
        self._config = config
        self._made: dict[int, Neighbour] = {}
        self._order = np.empty(stacks.count - stacks.carried, np.int32)
        self._starts = np.zeros(stacks.thread_count + 1, np.int32)
        group_by_thread(
            stacks.calls.thread, stacks.carried, stacks.count, stacks.thread_count, self._order, self._starts
        )
        self._sorted_points: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]] = {}

    def function(self, row: int) -> str:
        """Name of the call's function."""
        timer = int(self.stacks.calls.function[row])
        return self._names.timers.get(timer, f"timer {timer} (name not received)")

    def key(self, row: int) -> Key:
        """Identity of the call in a row of the call table."""
        calls = self.stacks.calls
        return int(calls.step[row]), int(calls.row[row])

    def neighbour(self, row: int) -> Neighbour:
        """The call in a row of the call table; the same object each time."""
        made = self._made.get(row)
        if made is None:
            calls = self.stacks.calls
            parent = int(calls.parent[row])
            made = Neighbour(
                self.key(row),
                self.function(row),
                int(calls.entry[row]),
                None if parent == NONE else self.key(parent),
                int(calls.depth[row]),
            )
            self.update(made, row)
        return made

    def update(self, neighbour: Neighbour, row: int) -> None:
        """Bring a call that was or is open up to date, and use this object for it from now on."""
        calls = self.stacks.calls
        self._made[row] = neighbour
        neighbour.exit_us = int(calls.exit[row])
        neighbour.is_anomaly = row in self._anomalies
        neighbour.is_lost = bool(calls.doubts[row] & LOST)
        self._add_points(neighbour, row)

    def ancestors(self, row: int) -> Iterator[int]:
        """Rows of the calls around it, innermost first."""
        parent = int(self.stacks.calls.parent[row])
        while parent != NONE:
            yield parent
            parent = int(self.stacks.calls.parent[parent])

    def open_rows(self) -> Iterator[int]:
        """Rows of all calls that are still open at the end of the step."""
        for top in self.stacks.threads.top[: self.stacks.thread_count]:
            if top != NONE:
                yield int(top)
                yield from self.ancestors(int(top))

    def active_threads(self) -> Iterator[int]:
        """Threads on which a call was entered in this step."""
        return (number for number in range(self.stacks.thread_count) if self.entered(number))

    def entered(self, thread: int) -> int:
        """How many calls were entered on the thread in this step."""
        return int(self._starts[thread + 1] - self._starts[thread])

    def position(self, row: int) -> int:
        """Which of the calls entered on its thread in this step it is, counted from 0."""
        start, end = self._thread_range(int(self.stacks.calls.thread[row]))
        return int(np.searchsorted(self._order[start:end], row))

    def before(self, thread: int, position: int, most: int, recent: list[Neighbour]) -> list[Neighbour]:
        """The last ``most`` calls entered on the thread before ``position``.

        ``recent`` are those of earlier steps.
        """
        start, _ = self._thread_range(thread)
        rows = self._order[start + max(position - most, 0) : start + position]
        here = [self.neighbour(int(row)) for row in rows]
        missing = most - len(here)
        return recent[max(len(recent) - missing, 0) :] + here if missing > 0 else here

    def after(self, thread: int, position: int, most: int) -> list[Neighbour]:
        """The first ``most`` calls entered on the thread in this step from ``position`` on."""
        start, end = self._thread_range(thread)
        rows = self._order[start + position : min(start + position + max(most, 0), end)]
        return [self.neighbour(int(row)) for row in rows]

    def watched(self) -> Iterator[CounterValue]:
        """Values of watched counters, in order of time."""
        watched = [
            number
            for number, name in self._names.counters.items()
            if name.startswith(self._config.watched_counters)
        ]
        if watched and len(self.step.counters):
            rows = np.flatnonzero(np.isin(self.step.counters[:, CounterColumn.COUNTER], watched))
            yield from (self._counter_value(int(row), "") for row in rows)

    def _thread_range(self, thread: int) -> tuple[int, int]:
        # A thread that is first seen in a later step has no calls in this one.
        return int(self._starts[thread]), int(self._starts[thread + 1])

    def _add_points(self, neighbour: Neighbour, row: int) -> None:
        identity = self._identity.call_id(neighbour.key)
        room = self._config.max_messages - len(neighbour.messages)
        rows = self._points_of("messages", self.stacks.message_calls, row)
        neighbour.messages.extend(self._message(int(at), identity) for at in rows[:room])
        neighbour.left_out += max(len(rows) - room, 0)
        room = self._config.max_counters - len(neighbour.counters)
        rows = self._points_of("counters", self.stacks.counter_calls, row)
        neighbour.counters.extend(self._counter_value(int(at), identity) for at in rows[:room])
        neighbour.left_out += max(len(rows) - room, 0)

    def _points_of(self, kind: str, calls: npt.NDArray[np.int32], row: int) -> npt.NDArray[np.int64]:
        """Rows of the messages or counters attached to one call, by one sort per step."""
        if not len(calls):
            return np.empty(0, np.int64)
        if kind not in self._sorted_points:
            order = np.argsort(calls, kind="stable")
            self._sorted_points[kind] = (order, calls[order])
        order, ordered_calls = self._sorted_points[kind]
        first, last = np.searchsorted(ordered_calls, (row, row + 1))
        return order[first:last]

    def _message(self, at: int, identity: str) -> Message:
        row = self.step.comms[at]
        partner = int(row[CommColumn.PARTNER])
        is_send = int(row[CommColumn.EVENT_TYPE]) == self._names.event_type_id(EventType.SEND)
        rank = self._identity.rank
        return Message(
            kind=EventType.SEND.name if is_send else EventType.RECV.name,
            source=rank if is_send else partner,
            destination=partner if is_send else rank,
            tag=int(row[CommColumn.TAG]),
            size_bytes=int(row[CommColumn.BYTES]),
            time_us=int(row[CommColumn.TIME]),
            call_id=identity,
        )

    def _counter_value(self, at: int, identity: str) -> CounterValue:
        row = self.step.counters[at]
        number = int(row[CounterColumn.COUNTER])
        return CounterValue(
            counter=self._names.counters.get(number, f"counter {number} (name not received)"),
            value=int(row[CounterColumn.VALUE]),
            time_us=int(row[CounterColumn.TIME]),
            call_id=identity,
        )
