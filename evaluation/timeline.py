"""Labelled runs written down call by call, for scenarios in which ranks, threads and programs interact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from chimbuko.core.arrays import Int64Array, UInt64Array
from chimbuko.core.traceschema import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    EVENT_COLUMNS,
    EVENT_RANK,
    EVENT_THREAD,
    EventType,
    StreamNames,
    TraceStep,
)
from evaluation.labelled import START_US, LabelledRun, LabelledStream, Truth, numbered

PERIOD_US = 1_000_000
"""TAU's."""


class _TrueCall(NamedTuple):
    """One call of the truth; ``entry`` is the number of the row, as it was written down."""

    entry: int
    function: tuple[int, str]
    runtime_us: float
    factor: float
    median_us: float
    quantile_us: float
    exit_us: int
    launched_by: int
    """Number of the call, of the same rank, that launched it; -1 for none."""


class RankTimeline:
    """What one rank does. Times are µs since the run began; each thread's calls are given in its order.

    Parameters
    ----------
    late_steps
        By how many steps the rows of a thread come later than those of others; with the last step at latest.
    """

    def __init__(
        self, program: int, rank: int, executable: str, late_steps: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        self.program = program
        self.rank = rank
        self.names = StreamNames(
            counters={0: "TIME"},
            event_types={int(kind): kind.name for kind in EventType},
            program=executable,
        )
        self.truth: list[_TrueCall] = []
        self._late_steps = late_steps
        self._timers: dict[str, int] = {}
        self._counters: dict[str, int] = {"TIME": 0}
        self._events: list[tuple[int, ...]] = []
        self._comms: list[tuple[int, ...]] = []
        self._values: list[tuple[int, ...]] = []

    def enter(self, thread: int, function: str, time_us: float) -> int:
        """ENTRY of a call; returns the number of its row."""
        return self._event(thread, EventType.ENTRY, function, time_us)

    def leave(self, thread: int, function: str, time_us: float) -> None:
        """EXIT of a call."""
        self._event(thread, EventType.EXIT, function, time_us)

    def call(
        self,
        thread: int,
        function: str,
        start_us: float,
        end_us: float,
        median_us: float,
        quantile_us: float,
        is_delayed: bool = False,
        launched_by: int = -1,
    ) -> int:
        """A call without children, and its truth; returns its number."""
        entry = self.enter(thread, function, start_us)
        self.leave(thread, function, end_us)
        start, end = round(start_us), round(end_us)
        self.truth.append(
            _TrueCall(
                entry=entry,
                function=(self.program, function),
                runtime_us=end - start,
                factor=(end - start) / median_us if is_delayed else 0.0,
                median_us=median_us,
                quantile_us=quantile_us,
                exit_us=START_US + end,
                launched_by=launched_by,
            )
        )
        return len(self.truth) - 1

    def send(self, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        """A message sent."""
        self._message(EventType.SEND, thread, partner, size_bytes, time_us)

    def receive(self, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        """A message received."""
        self._message(EventType.RECV, thread, partner, size_bytes, time_us)

    def counter(self, thread: int, name: str, value: int, time_us: float) -> None:
        """A counter value."""
        number = self._counters.setdefault(name, len(self._counters))
        self.names.counters[number] = name
        self._values.append((thread, number, value, START_US + round(time_us)))

    def _event(self, thread: int, kind: EventType, function: str, time_us: float) -> int:
        timer = self._timers.setdefault(function, len(self._timers))
        self.names.timers[timer] = function
        self._events.append((thread, int(kind), timer, START_US + round(time_us)))
        return len(self._events) - 1

    def _message(self, kind: EventType, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        self._comms.append((thread, int(kind), 0, partner, size_bytes, START_US + round(time_us)))

    def stream(self) -> tuple[LabelledStream, list[int]]:
        """All steps, and where each row that was written down stands in them."""
        events = self._array(self._events, EVENT_COLUMNS)
        comms = self._array(sorted(self._comms, key=itemgetter(-1)), COMM_COLUMNS)
        values = self._array(sorted(self._values, key=itemgetter(-1)), COUNTER_COLUMNS)
        numbers = [self._step_numbers(rows) for rows in (events, comms, values)]
        # As TAU writes them: step by step, within a step thread by thread.
        order = np.lexsort((np.arange(len(events)), events[:, EVENT_THREAD], numbers[0]))
        events, numbers[0] = events[order], numbers[0][order]
        steps = [
            TraceStep(
                step,
                *(rows[own == number] for rows, own in zip((events, comms, values), numbers, strict=True)),
            )
            for step, number in enumerate(np.unique(np.concatenate(numbers)))
        ]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return LabelledStream(self.program, self.rank, self.names, steps), place.tolist()

    def _step_numbers(self, rows: UInt64Array) -> Int64Array:
        """With which step each row comes, in seconds since the run began."""
        numbers = (rows[:, -1].astype(np.int64) - START_US) // PERIOD_US
        late = [self._late_steps.get(thread, 0) for thread in rows[:, EVENT_THREAD].tolist()]
        last = (self._events[-1][-1] - START_US) // PERIOD_US
        return np.minimum(numbers + np.array(late, np.int64), np.maximum(numbers, last))

    def _array(self, rows: list[tuple[int, ...]], columns: int) -> UInt64Array:
        """Rows with program and rank before them."""
        array = np.zeros((len(rows), columns), np.uint64)
        array[:, EVENT_RANK] = self.rank
        if rows:
            array[:, EVENT_THREAD:] = rows
        return array


def labelled_run(timelines: list[RankTimeline]) -> LabelledRun:
    """Ranks of all programs as one run."""
    streams = []
    rows: list[tuple[int, int, int, _TrueCall]] = []
    for number, timeline in enumerate(timelines):
        stream, place = timeline.stream()
        streams.append(stream)
        first = len(rows)
        for call in timeline.truth:
            launched_by = first + call.launched_by if call.launched_by >= 0 else -1
            rows.append((number, place[call.entry], launched_by, call))
    functions: dict[tuple[int, str], int] = defaultdict(lambda: len(functions))
    calls = [row[-1] for row in rows]
    function = np.array([functions[call.function] for call in calls])
    truth = Truth(
        stream=np.array([row[0] for row in rows]),
        entry=np.array([row[1] for row in rows]),
        function=function,
        runtime_us=np.array([call.runtime_us for call in calls]),
        factor=np.array([call.factor for call in calls]),
        median_us=np.array([call.median_us for call in calls]),
        quantile_us=np.array([call.quantile_us for call in calls]),
        number=numbered(function, np.array([call.exit_us for call in calls])),
        launched_by=np.array([row[2] for row in rows]),
    )
    return LabelledRun(streams, truth, PERIOD_US)
