"""How far the clocks of ranks are apart, by their messages and collective operations.

No message is received before it was sent, and no rank leaves a collective operation before the last one came.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chimbuko.capture.formats.moments import Edge, MessageEnd, Moment
from chimbuko.capture.trace.discovery import StreamName
from chimbuko.core.calls.clocks import Clocks
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.traceschema import (
    OPERATION_COMMUNICATOR,
    OPERATION_KIND,
    OPERATION_NUMBER,
    OPERATION_THREAD,
    OPERATION_TIME,
    Operation,
    TraceStep,
)

MOST_ENDS: Final = 1 << 20
"""Messages of which one end is known, and operations of which not all calls have ended."""
PROGRAM: Final = 0


@dataclass
class _Members:
    """Ranks in one collective operation, with the times when they came and went."""

    calls_us: dict[int, tuple[int, int]] = field(default_factory=dict)


class ClockOffsets:
    """Takes all events of all ranks, each in order, and says what to subtract of their times."""

    def __init__(self) -> None:
        self._clocks = Clocks()
        self._ends: OrderedDict[str, tuple[int, int, bool]] = OrderedDict()
        self._operations: OrderedDict[tuple[int, int, int], _Members] = OrderedDict()
        """By the first rank of the world, communicator and number: each world numbers communicators anew."""

    def take(self, stream: StreamName, moments: list[Moment], step: TraceStep) -> None:
        """One step of a stream: its events, as they are, and the arrays that they are of."""
        for moment in moments:
            if isinstance(moment, MessageEnd):
                self._message(stream.rank, moment)
        self._collectives(stream, moments, step)

    def update(self) -> bool:
        """Find the corrections; whether there are any."""
        return self._clocks.update()

    def ahead_us(self, rank: int, time_us: int) -> int:
        """By how much the clock of a rank is ahead."""
        return round(self._clocks.ahead_us(PROGRAM, rank, time_us))

    def at(self, ranks: Mapping[int, int]) -> dict[int, tuple[float, float]]:
        """Of ranks that have to be corrected: µs ahead at a time of each, and how uncertain that is."""
        return {
            rank: (self._clocks.ahead_us(PROGRAM, rank, time_us), self._clocks.uncertain_us(PROGRAM, rank))
            for rank, time_us in ranks.items()
            if self._clocks.ahead_us(PROGRAM, rank, time_us)
        }

    def _message(self, rank: int, end: MessageEnd) -> None:
        other = self._ends.pop(end.flow, None)
        if other is None or other[2] == end.is_send:
            self._ends[end.flow] = rank, end.time_us, end.is_send
            if len(self._ends) > MOST_ENDS:
                self._ends.popitem(last=False)
            return
        sent, received = ((rank, end.time_us), other[:2]) if end.is_send else (other[:2], (rank, end.time_us))
        self._clocks.add((PROGRAM, sent[0]), sent[1], (PROGRAM, received[0]), received[1])

    def _collectives(self, stream: StreamName, moments: list[Moment], step: TraceStep) -> None:
        is_collective = step.operations[:, OPERATION_KIND] == Operation.COLLECTIVE
        columns = [OPERATION_THREAD, OPERATION_TIME, OPERATION_COMMUNICATOR, OPERATION_NUMBER]
        waiting = sorted(
            map(tuple, step.operations[is_collective][:, columns].tolist()), key=lambda one: one[1]
        )
        by_thread: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for one in waiting:
            by_thread[one[0]].append(one)
        # The first end of a call behind the operation is that of the call that it is in, or of one within it.
        for moment in moments:
            if isinstance(moment, Edge) and not moment.is_begin:
                queue = by_thread.get(moment.thread, [])
                while queue and queue[0][1] <= moment.time_us:
                    _, time_us, group, number = queue.pop(0)
                    if waits_in(moment.function) is Waits.COLLECTIVE:
                        # Others only begin it.
                        key = stream.first_rank, group, number
                        self._collective(stream.rank, key, time_us, moment.time_us)

    def _collective(self, rank: int, key: tuple[int, int, int], came_us: int, went_us: int) -> None:
        members = self._operations.setdefault(key, _Members())
        for other, (other_came_us, other_went_us) in list(members.calls_us.items())[-2:]:
            self._clocks.add((PROGRAM, rank), came_us, (PROGRAM, other), other_went_us)
            self._clocks.add((PROGRAM, other), other_came_us, (PROGRAM, rank), went_us)
        members.calls_us[rank] = came_us, went_us
        while len(self._operations) > MOST_ENDS:
            self._operations.popitem(last=False)
