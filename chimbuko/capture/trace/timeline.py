"""Stream written down call by call, and cut into steps as TAU writes them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from types import MappingProxyType

import numpy as np

from chimbuko.core.arrays import Int64Array, UInt64Array
from chimbuko.core.traceschema import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    EVENT_COLUMNS,
    EVENT_RANK,
    EVENT_THREAD,
    NO_PEER,
    OPERATION_COLUMNS,
    EventType,
    Operation,
    StreamNames,
    TraceStep,
)

START_US = 1_700_000_000_000_000
"""Time at which a made-up run begins where nothing else is said, in µs since the Unix epoch."""
PERIOD_US = 1_000_000
"""Period of TAU's steps, in µs."""


class StreamTimeline:
    """What one rank does. Times are µs since the run began; each thread's calls are given in its order.

    Parameters
    ----------
    late_steps
        By how many steps the rows of a thread come later than those of others; with the last step at latest.
    start_us
        Time at which the run begins, in µs since the Unix epoch.
    """

    def __init__(
        self,
        rank: int,
        executable: str,
        late_steps: Mapping[int, int] = MappingProxyType({}),
        start_us: int = START_US,
    ) -> None:
        self.rank = rank
        self.names = StreamNames(
            counters={0: "TIME"},
            event_types={int(kind): kind.name for kind in EventType},
            program=executable,
        )
        self._start_us = start_us
        self._late_steps = late_steps
        self._timers: dict[str, int] = {}
        self._counters: dict[str, int] = {"TIME": 0}
        self._events: list[tuple[int, ...]] = []
        self._comms: list[tuple[int, ...]] = []
        self._values: list[tuple[int, ...]] = []
        self._operations: list[tuple[int, ...]] = []

    def enter(self, thread: int, function: str, time_us: float) -> int:
        """Write down the ENTRY of a call; returns the number of its row."""
        return self._event(thread, EventType.ENTRY, function, time_us)

    def leave(self, thread: int, function: str, time_us: float) -> None:
        """Write down the EXIT of a call."""
        self._event(thread, EventType.EXIT, function, time_us)

    def send(self, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        """Write down a message sent."""
        self._message(EventType.SEND, thread, partner, size_bytes, time_us)

    def receive(self, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        """Write down a message received."""
        self._message(EventType.RECV, thread, partner, size_bytes, time_us)

    def collective(self, thread: int, number: int, size_bytes: int, time_us: float) -> None:
        """Write down that a collective operation of all ranks was entered; each has a number, from 0 on."""
        kind = int(Operation.COLLECTIVE)
        row = (thread, kind, 0, NO_PEER, number, size_bytes, 0, self._start_us + round(time_us))
        self._operations.append(row)

    def counter(self, thread: int, name: str, value: int, time_us: float) -> None:
        """Write down a counter's value."""
        number = self._counters.setdefault(name, len(self._counters))
        self.names.counters[number] = name
        self._values.append((thread, number, value, self._start_us + round(time_us)))

    def steps(self, period_us: int = PERIOD_US) -> tuple[list[TraceStep], list[int]]:
        """Return all steps, and where each event that was written down stands in its own."""
        events = self._array(self._events, EVENT_COLUMNS)
        rows = [
            events,
            *(
                self._array(sorted(own, key=itemgetter(-1)), columns)
                for own, columns in (
                    (self._comms, COMM_COLUMNS),
                    (self._values, COUNTER_COLUMNS),
                    (self._operations, OPERATION_COLUMNS),
                )
            ),
        ]
        numbers = [self._step_numbers(own, period_us) for own in rows]
        # As TAU writes them: step by step, within a step thread by thread.
        order = np.lexsort((np.arange(len(events)), events[:, EVENT_THREAD], numbers[0]))
        rows[0], numbers[0] = events[order], numbers[0][order]
        steps = []
        for step, number in enumerate(np.unique(np.concatenate(numbers))):
            of_step = [own[of == number] for own, of in zip(rows, numbers, strict=True)]
            events_of, comms_of, values_of, operations_of = of_step
            steps.append(TraceStep(step, events_of, comms_of, values_of, operations=operations_of))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return steps, place.tolist()

    def _event(self, thread: int, kind: EventType, function: str, time_us: float) -> int:
        timer = self._timers.setdefault(function, len(self._timers))
        self.names.timers[timer] = function
        self._events.append((thread, int(kind), timer, self._start_us + round(time_us)))
        return len(self._events) - 1

    def _message(self, kind: EventType, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        time = self._start_us + round(time_us)
        self._comms.append((thread, int(kind), 0, partner, size_bytes, time))

    def _step_numbers(self, rows: UInt64Array, period_us: int) -> Int64Array:
        """Return with which step each row comes, in periods since the run began."""
        numbers = (rows[:, -1].astype(np.int64) - self._start_us) // period_us
        late = [self._late_steps.get(thread, 0) for thread in rows[:, EVENT_THREAD].tolist()]
        last = (self._events[-1][-1] - self._start_us) // period_us
        return np.minimum(numbers + np.array(late, np.int64), np.maximum(numbers, last))

    def _array(self, rows: list[tuple[int, ...]], columns: int) -> UInt64Array:
        """Return rows with program and rank before them."""
        array = np.zeros((len(rows), columns), np.uint64)
        array[:, EVENT_RANK] = self.rank
        if rows:
            array[:, EVENT_THREAD:] = np.array(rows, np.uint64)
        return array
