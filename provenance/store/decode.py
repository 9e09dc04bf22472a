"""Decoder of a recorded call's details, which ``kernels.pack`` writes: stack, window, messages, counters.

Numbers are written seven bits a byte, lowest first; the eighth bit says that more follow. Signed ones are
folded (0, -1, 1, -2 ... as 0, 1, 2, 3 ...). First come the numbers of frames, members of the window,
messages, counters, metrics and frames of the launch; then each of these; then what MPI knows of the messages:
for each four times its number, plus 2 if it is a collective operation, plus 1 if another communicator than
that of the message before follows. This part is left out where nothing is known. Each call is written as its
difference from the one before, the first one from the recorded call itself, whose row in the table of calls
holds its times and id.

General compressors do worse: of 383 calls of a traced heat solver these details take 148 bytes each.
The same numbers take 460 in MessagePack, and 211 with zstd and a dictionary that was trained on half of them;
zstd alone then takes 6 µs a call, the kernel 2 for all of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from chimbuko.core.calls.record import Collective, CounterValue, Message, StackFrame, WindowCall, call_id
from chimbuko.core.calls.recordarrays import NO_CALL


class CallDetails(msgspec.Struct, frozen=True):
    """Fields of a ``CallRecord`` that are lists, but for the node's state."""

    call_stack: list[StackFrame]
    window: list[WindowCall]
    messages: list[Message]
    counters: list[CounterValue]
    metrics: list[CounterValue]
    launch_stack: list[StackFrame]
    collectives: list[Collective]


class OwnCall(msgspec.Struct, frozen=True):
    """Recorded call, from which the others are differences."""

    program: int
    rank: int
    step: int
    """Step in which its ENTRY stands."""
    row: int
    function: int
    entry_us: int
    depth: int

    def id_of(self, step: int, row: int) -> str:
        """Return the id of a call of the same stream; empty for ``NO_CALL``."""
        return "" if step == NO_CALL else call_id(self.program, self.rank, step, row)


class Names(msgspec.Struct, frozen=True):
    """Names that numbers stand for in a run."""

    functions: Mapping[int, str]
    texts: Mapping[int, str]


def read_details(packed: bytes, own: OwnCall, names: Names) -> CallDetails:
    """Read the details of one call."""
    reader = _Reader(packed, own, names)
    frames, members, messages, counters, metrics, launch_frames = (reader.unsigned() for _ in range(6))
    stack = reader.frames(frames)
    window = reader.members(members, stack)
    points = reader.messages(messages, window)
    of_counters, of_metrics = reader.counters(counters, window), reader.counters(metrics, window)
    launch_stack = reader.frames(launch_frames)
    sent, collectives = reader.numbered(points)
    return CallDetails(
        call_stack=stack,
        window=window,
        messages=sent,
        counters=of_counters,
        metrics=of_metrics,
        launch_stack=launch_stack,
        collectives=collectives,
    )


def read_node_state(packed: bytes, names: Names) -> list[CounterValue]:
    """Read the watched counters of a step."""
    reader = _Reader(packed, OwnCall(0, 0, 0, 0, 0, 0, 0), names)
    time_us = 0
    values = []
    for _ in range(reader.unsigned()):
        time_us += reader.signed()
        value, name = reader.unsigned(), names.texts[reader.unsigned()]
        values.append(CounterValue(name, value, time_us, ""))
    return values


class _Reader:
    """Reader of the parts of one call's details, in the order in which they stand."""

    def __init__(self, packed: bytes, own: OwnCall, names: Names) -> None:
        # All numbers at once: a call of a function for each took a sixth of the time of explaining a run.
        self.unsigned = partial(next, iter(_numbers(packed)), 0)
        self._own = own
        self._names = names

    def signed(self) -> int:
        return _unfolded(self.unsigned())

    def frames(self, count: int) -> list[StackFrame]:
        return list(itertools.islice(self._calls(), count))

    def members(self, count: int, stack: list[StackFrame]) -> list[WindowCall]:
        window: list[WindowCall] = []
        for call in itertools.islice(self._calls(), count):
            depth = self._own.depth + self.signed()
            # Calls are counted backwards: the members before, latest first, and then the call stack.
            back = self.unsigned()
            if back == 0:
                parent_id = self._id()
            elif back <= len(window):
                parent_id = window[-back].id
            else:
                parent_id = stack[back - len(window) - 1].id
            window.append(
                WindowCall(
                    call.id, call.function, call.entry_us, call.exit_us, parent_id, depth, call.is_anomaly
                )
            )
        return window

    def messages(self, count: int, window: list[WindowCall]) -> list[Message]:
        time_us = self._own.entry_us
        made = []
        for _ in range(count):
            time_us += self.signed()
            size_bytes, partner, tag, owner = (self.unsigned() for _ in range(4))
            rank = self._own.rank
            kind, source, destination = ("SEND", rank, partner) if owner & 1 else ("RECV", partner, rank)
            call_id = self._owner(owner >> 1, window)
            made.append(Message(kind, source, destination, tag, size_bytes, time_us, call_id))
        return made

    def numbered(self, points: list[Message]) -> tuple[list[Message], list[Collective]]:
        """Return messages with what MPI knows of them, and apart from these the collective operations."""
        messages: list[Message] = []
        collectives: list[Collective] = []
        communicator = 0
        for point in points:
            number = self.unsigned()
            communicator = self.unsigned() if number & 1 else communicator
            on = communicator, number >> 2
            if number & 2:
                root, size_bytes, time_us = point.source, point.size_bytes, point.time_us
                collectives.append(Collective(*on, root, size_bytes, time_us, point.call_id))
            else:
                messages.append(msgspec.structs.replace(point, communicator=on[0], number=on[1]))
        return messages, collectives

    def counters(self, count: int, window: list[WindowCall]) -> list[CounterValue]:
        time_us = self._own.entry_us
        made = []
        for _ in range(count):
            time_us += self.signed()
            value, name, owner = (self.unsigned() for _ in range(3))
            made.append(CounterValue(self._names.texts[name], value, time_us, self._owner(owner, window)))
        return made

    def _calls(self) -> Iterator[StackFrame]:
        """Yield what frames and members have in common.

        Each is given by its difference from the one before.
        """
        take, own, functions = self.unsigned, self._own, self._names.functions
        entry_us, step, row = own.entry_us, own.step, own.row
        # Unfolded in place: this is most of what reading a record takes.
        while True:
            moved = take()
            entry_us += (moved >> 1) ^ -(moved & 1)
            runtime = take()
            place = take()
            row += (place >> 2) ^ -(place >> 1 & 1)
            if place & 1:
                step += self.signed()
            moved = take()
            function = functions[own.function + ((moved >> 1) ^ -(moved & 1))]
            exit_us = _exit_us(entry_us, runtime >> 1)
            yield StackFrame(own.id_of(step, row), function, entry_us, exit_us, bool(runtime & 1))

    def _owner(self, number: int, window: list[WindowCall]) -> str:
        """Return the call that a message or counter value belongs to: a member counted from 1, or another."""
        return window[number - 1].id if number else self._id()

    def _id(self) -> str:
        step = self._own.step + self.signed()
        return self._own.id_of(step, self._own.row + self.signed())


def _numbers(packed: bytes) -> list[int]:
    """Return the numbers of details, each of which stands in groups of seven bits, the lowest first."""
    numbers = []
    value = shift = 0
    for byte in packed:
        if byte < 128:
            numbers.append(value | byte << shift)
            value = shift = 0
        else:
            value |= (byte & 127) << shift
            shift += 7
    return numbers


def _unfolded(folded: int) -> int:
    return (folded >> 1) ^ -(folded & 1)


def _exit_us(entry_us: int, runtime: int) -> int:
    """Return the exit from a runtime in µs plus one, in 63 bits; 0 stands for an open call."""
    return entry_us + (runtime - 1 if runtime < 1 << 62 else runtime - 1 - (1 << 63)) if runtime else 0
