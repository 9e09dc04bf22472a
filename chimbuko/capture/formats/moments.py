"""The events of a step in order of time, as values that any format can write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import (
    COMM_PARTNER,
    COMM_SIZE,
    COMM_TAG,
    COMM_THREAD,
    COMM_TIME,
    COMM_TYPE,
    COUNTER_NUMBER,
    COUNTER_THREAD,
    COUNTER_TIME,
    COUNTER_VALUE,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    MAX_TIME_US,
    EventType,
    StreamNames,
    TraceStep,
)


@dataclass(frozen=True)
class Edge:
    """A call begins, or ends."""

    thread: int
    time_us: int
    function: str
    is_begin: bool


@dataclass(frozen=True)
class Value:
    """A value of a counter."""

    thread: int
    time_us: int
    counter: str
    value: int


@dataclass(frozen=True)
class MessageEnd:
    """A message is sent, or received."""

    thread: int
    time_us: int
    tag: int
    size_bytes: int
    is_send: bool
    flow: str
    """The same at both ends: messages of a channel come in the order in which they were sent."""


Moment = Edge | Value | MessageEnd


class Moments:
    """The steps of one stream, one after the other.

    Parameters
    ----------
    rank
        Rank of the stream.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self.left_out = 0
        """Number of rows with absurd times."""
        self._counts: Counter[tuple[int, int, int]] = Counter()

    def of(self, step: TraceStep, names: StreamNames) -> Iterator[Moment]:
        """Return the moments of a step, kind by kind, each in order, without rows of absurd times."""
        entry, exit_ = names.event_type_id(EventType.ENTRY), names.event_type_id(EventType.EXIT)
        columns = [EVENT_TYPE, EVENT_THREAD, EVENT_TIME, EVENT_TIMER]
        for kind, thread, time_us, timer in self._possible(step.events, EVENT_TIME)[:, columns].tolist():
            if kind in (entry, exit_):
                yield Edge(thread, time_us, names.timer_name(timer), kind == entry)
        columns = [COUNTER_THREAD, COUNTER_TIME, COUNTER_NUMBER, COUNTER_VALUE]
        for thread, time_us, number, value in self._possible(step.counters, COUNTER_TIME)[
            :, columns
        ].tolist():
            yield Value(thread, time_us, names.counters.get(number, f"counter {number}"), value)
        send = names.event_type_id(EventType.SEND)
        columns = [COMM_TYPE, COMM_THREAD, COMM_TIME, COMM_TAG, COMM_SIZE, COMM_PARTNER]
        for kind, thread, time_us, tag, size, partner in self._possible(step.comms, COMM_TIME)[
            :, columns
        ].tolist():
            ends = (self._rank, partner) if kind == send else (partner, self._rank)
            channel = (*ends, tag)
            number = self._counts[kind, partner, tag]
            self._counts[kind, partner, tag] += 1
            flow = ":".join(map(str, (*channel, number)))
            yield MessageEnd(thread, time_us, tag, size, kind == send, flow)

    def _possible(self, rows: UInt64Array, time: int) -> UInt64Array:
        times = rows[:, time]
        is_possible = (times > 0) & (times < np.uint64(MAX_TIME_US))
        self.left_out += len(rows) - int(is_possible.sum())
        return rows[is_possible]


MAIN_THREAD: Final = 0
