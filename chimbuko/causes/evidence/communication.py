"""Times of messages at both ends, and of entries into collective operations, from recorded calls."""

from __future__ import annotations

from collections import OrderedDict

from chimbuko.core.calls.clocks import Clocks
from chimbuko.core.calls.record import CallRecord, Collective, Message
from chimbuko.core.calls.waiting import Waits, is_over_for_all, waits_in

MOST_ENDS = 200_000
"""Maximum number of messages and of operations that are remembered, 60 MB; the oldest go first."""

Key = tuple[int, int, int, int, int, int]
"""Key of a message: program, communicator, source, destination, tag and number."""
Operation = tuple[int, int, int]
"""Key of a collective operation: program, communicator and number."""
MOST_STAYS = 64
"""Maximum number of ranks per operation whose times of entry and exit are remembered."""
MOST_COMPARED = 6
"""Maximum number of other ranks of an operation that a rank's times are compared with, beside the last one to
come.
"""


class Communication:
    """Times of messages and collective operations, each on the clock of the rank concerned.

    Messages without a number are not known. Where only one end is on record, the other is not known.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._sent: OrderedDict[Key, int] = OrderedDict()
        self._received: OrderedDict[Key, int] = OrderedDict()
        self._entered: OrderedDict[Operation, dict[int, int]] = OrderedDict()
        self._stays: OrderedDict[Operation, dict[int, tuple[int, int]]] = OrderedDict()
        self._arrived: OrderedDict[Operation, dict[int, int]] = OrderedDict()
        self._members: dict[tuple[int, int], set[int]] = {}

    def put(self, record: CallRecord) -> None:
        """Take what a recorded call and its neighbours sent, received and entered."""
        self._clocks.put_rank(record.program, record.rank, record.node)
        for message in record.messages:
            if message.number:
                self._put_message(_key(record.program, message), message)
        for one in record.collectives:
            operation = record.program, one.communicator, one.number
            if one.communicator and _is_of_threads(one, record):
                self._arrived.setdefault(operation, {})[record.thread] = one.time_us
            elif one.communicator:
                self._entered.setdefault(operation, {})[record.rank] = one.time_us
                self._members.setdefault(operation[:2], set()).add(record.rank)
                self._compare(operation, one, record)
        for ends in (self._sent, self._received, self._entered, self._stays, self._arrived):
            while len(ends) > MOST_ENDS:
                ends.popitem(last=False)

    def sent_us(self, program: int, message: Message) -> int | None:
        """Return when a received message was sent, on the clock of its source; None if it is not known."""
        return self._sent.get(_key(program, message)) if message.number else None

    def entered_us(self, program: int, operation: Collective) -> dict[int, int]:
        """Return when ranks entered an operation, each on its own clock."""
        return self._entered.get((program, operation.communicator, operation.number), {})

    def arrived_us(self, program: int, barrier: Collective) -> dict[int, int]:
        """Return when threads of a rank came to a barrier, on its clock."""
        return self._arrived.get((program, barrier.communicator, barrier.number), {})

    def members(self, program: int, operation: Collective) -> set[int]:
        """Return the ranks that are known to use an operation's communicator."""
        return self._members.get((program, operation.communicator), set())

    def _put_message(self, key: Key, message: Message) -> None:
        mine, other = (self._sent, self._received) if message.kind == "SEND" else (self._received, self._sent)
        if key in mine:
            return
        mine[key] = message.time_us
        if key in other:
            program, source, destination = key[0], key[2], key[3]
            times = self._sent[key], self._received[key]
            self._clocks.add((program, source), times[0], (program, destination), times[1])

    def _compare(self, operation: Operation, one: Collective, record: CallRecord) -> None:
        """Compare clocks: nobody leaves an operation without a root before all have come."""
        call = next((call for call in record.window if call.id == one.call_id), None)
        stays = self._stays.setdefault(operation, {})
        if call is None or not call.exit_us or not is_over_for_all(call.function):
            return
        if one.root != record.rank or record.rank in stays or len(stays) >= MOST_STAYS:
            return
        program, rank = record.program, record.rank
        last = max(stays, key=lambda other: stays[other][0], default=rank)
        for other in {last, *list(stays)[-MOST_COMPARED:]} - {rank}:
            came_us, left_us = stays[other]
            self._clocks.add((program, rank), one.time_us, (program, other), left_us)
            self._clocks.add((program, other), came_us, (program, rank), call.exit_us)
        stays[rank] = one.time_us, call.exit_us


def _is_of_threads(one: Collective, record: CallRecord) -> bool:
    """Whether an operation is a barrier of threads, by the call that entered it."""
    function = next((call.function for call in record.window if call.id == one.call_id), "")
    return waits_in(function) is Waits.THREADS


def _key(program: int, message: Message) -> Key:
    return (
        program,
        message.communicator,
        message.source,
        message.destination,
        message.tag,
        message.number,
    )
