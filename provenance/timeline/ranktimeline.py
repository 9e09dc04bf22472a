"""Timelines of ranks: the recorded calls of each thread, one inside the other, messages and counters.

Windows of anomalies overlap, and call stacks even more: here each call stands once. What lies between
windows was not recorded, and is left empty.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest

import msgspec

from chimbuko.core.calls.record import CallRecord, CounterValue, Message, StackFrame, WindowCall
from chimbuko.core.calls.recordarrays import UNKNOWN_THREAD
from chimbuko.core.calls.schema import Label

Argument = str | int | float | bool
Interval = tuple[int, int]

NODE = -1
"""Number in place of the thread of a counter that belongs to the node."""


class Slice(msgspec.Struct, gc=False):
    """Slice of a timeline: one call, within the one that it lies in."""

    id: str
    function: str
    parent_id: str
    """Id of the parent; empty if there is none, or it is not known."""
    begin_us: int
    end_us: int
    """End, not after that of the slice around it; for an open call the last time at which it is known to go
    on."""
    depth: int
    """Depth of the call: number of calls around it, recorded or not."""
    is_anomaly: bool
    is_open: bool
    """Whether the call has not ended in anything that was recorded."""
    level: int = 0
    """Number of slices around it."""
    arguments: Mapping[str, Argument] | None = None
    """Figures of a call with a record of its own; None for one that is only in the windows of others."""

    @property
    def category(self) -> str:
        """Category: ``anomaly``, ``normal`` for a recorded normal one, ``neighbour`` for calls around."""
        if self.is_anomaly:
            return "anomaly"
        return "neighbour" if self.arguments is None else "normal"


@dataclass(frozen=True)
class Lane:
    """Calls of one thread, or of one stream of a GPU."""

    thread: int
    is_gpu: bool
    slices: list[Slice]
    """Slices by entry, outer before inner."""
    windows: list[Interval]
    """Separate intervals that the windows cover, by time."""


@dataclass(frozen=True)
class Counter:
    """Recorded values of one counter."""

    thread: int
    """Thread of the counter; ``NODE`` for a watched counter."""
    name: str
    values: list[tuple[int, int]]
    """Values, each with its time in µs; by time."""


class MessagePoint(msgspec.Struct, frozen=True, gc=False):
    """End of a message: its sending, or its receiving."""

    program: int
    rank: int
    thread: int
    message: Message


@dataclass(frozen=True)
class RankTimeline:
    """Timeline of one rank: all that was recorded of it."""

    program: int
    rank: int
    node: str
    lanes: list[Lane]
    """Lanes by thread."""
    counters: list[Counter]
    """Counters, those of the node first, then by thread and name."""
    messages: list[MessagePoint]
    """Ends of messages, by time."""
    launches: list[tuple[str, str]]
    """Launches on a GPU: id of the launching and of the launched call, both of which have slices."""

    def anomalies(self) -> list[Slice]:
        """Return the abnormal calls, by thread and entry."""
        return [call for lane in self.lanes for call in lane.slices if call.is_anomaly]


def rank_timelines(records: Iterable[CallRecord]) -> Iterator[RankTimeline]:
    """Yield the timeline of each rank.

    Memory depends on what was recorded of one rank.

    Parameters
    ----------
    records
        Recorded calls, by program and rank.
    """
    for (program, rank), calls in groupby(records, key=lambda call: (call.program, call.rank)):
        collected = _Rank(program, rank)
        for call in calls:
            collected.add(call)
        yield collected.timeline()


def edges(slices: Iterable[Slice]) -> Iterator[tuple[Slice, bool]]:
    """Yield each slice of a lane when it begins (True) and when it ends (False), inner ones between."""
    around: list[Slice] = []
    for inner in slices:
        while len(around) > inner.level:
            yield around.pop(), False
        yield inner, True
        around.append(inner)
    while around:
        yield around.pop(), False


def slice_arguments(call: Slice) -> dict[str, Argument]:
    """Return what a viewer shows of a call beside its name and times."""
    open_call: dict[str, Argument] = {"is_open": True} if call.is_open else {}
    return {"id": call.id, **open_call, **(call.arguments or {})}


def message_arguments(message: Message) -> dict[str, Argument]:
    """Return what a viewer shows of a message beside its time and whether it is sent or received."""
    return {
        "source": message.source,
        "destination": message.destination,
        "tag": message.tag,
        "size_bytes": message.size_bytes,
        "call_id": message.call_id,
    }


@dataclass
class _Thread:
    """Thread, as far as it is known from the records so far."""

    is_gpu: bool = False
    slices: dict[str, Slice] = field(default_factory=dict)
    """Slices by id."""
    windows: list[Interval] = field(default_factory=list)


class _Rank:
    """Collector of what the records of a rank report; several may report the same thing."""

    def __init__(self, program: int, rank: int) -> None:
        self._program = program
        self._rank = rank
        self._node = ""
        self._threads: dict[int, _Thread] = {}
        self._counters: dict[tuple[int, str], dict[tuple[int, int], None]] = {}
        self._messages: dict[tuple[int, Message, int], None] = {}
        self._launches: dict[str, str] = {}

    def add(self, call: CallRecord) -> None:
        """Take in one record."""
        self._node = self._node or call.node
        thread = self._threads.setdefault(call.thread, _Thread())
        thread.is_gpu |= call.is_gpu
        _see_stack(thread, call.call_stack, call.depth)
        for neighbour in call.window:
            _see(thread, neighbour, neighbour.depth, neighbour.parent_id)
        self._see_recorded(thread, call)
        thread.windows.append(_window(call))
        self._see_launch(call)
        self._see_messages(call)
        for value in call.counters:
            self._see_value(call.thread, value)
        for value in call.node_state:
            self._see_value(NODE, value)

    def timeline(self) -> RankTimeline:
        """Return all that was reported, as a timeline."""
        counters = [
            Counter(thread, name, sorted(values))
            for (thread, name), values in sorted(self._counters.items(), key=lambda item: item[0])
        ]
        points = [
            MessagePoint(self._program, self._rank, thread, message) for thread, message, _ in self._messages
        ]
        return RankTimeline(
            self._program,
            self._rank,
            self._node,
            [
                Lane(number, thread.is_gpu, nested(thread.slices.values()), _united(thread.windows))
                for number, thread in sorted(self._threads.items())
            ],
            counters,
            sorted(points, key=lambda point: (point.message.time_us, point.thread)),
            [(launch, kernel) for kernel, launch in self._launches.items()],
        )

    def _see_recorded(self, thread: _Thread, call: CallRecord) -> None:
        """Add the recorded call itself; where other records differ, its own record is right."""
        frame = StackFrame(call.id, call.function, call.entry_us, call.exit_us, False)
        own = _see(thread, frame, call.depth, "")
        own.end_us = max(own.end_us, call.entry_us + call.inclusive_us)
        own.is_anomaly = call.label is Label.ANOMALY
        own.arguments = _arguments(call)

    def _see_launch(self, call: CallRecord) -> None:
        if not call.launch_stack or call.launch_thread == UNKNOWN_THREAD:
            return
        thread = self._threads.setdefault(call.launch_thread, _Thread())
        _see_stack(thread, call.launch_stack, len(call.launch_stack) - 1)
        launch = call.launch_stack[0]
        thread.windows.append((launch.entry_us, max(launch.entry_us, launch.exit_us)))
        self._launches[call.id] = launch.id

    def _see_messages(self, call: CallRecord) -> None:
        # Two equal messages are still two if they stand in one record, but not if two records contain them.
        reported: dict[Message, int] = {}
        for message in call.messages:
            reported[message] = reported.get(message, 0) + 1
            self._messages[call.thread, message, reported[message]] = None

    def _see_value(self, thread: int, value: CounterValue) -> None:
        self._counters.setdefault((thread, value.counter), {})[value.time_us, value.value] = None


def _arguments(call: CallRecord) -> dict[str, Argument]:
    """Return what a record says of its call beside what each slice has."""
    known: dict[str, Argument] = {
        "label": call.label.value,
        "severity_us": call.severity_us,
        "score": call.score,
        "expected_us": call.expected_us,
        "spread_us": call.spread_us,
        "seen": call.seen,
        "inclusive_us": call.inclusive_us,
        "exclusive_us": call.exclusive_us,
        "step": call.step,
        "detector": call.detector,
    }
    if call.incident_id:
        known["incident_id"] = call.incident_id
    if call.launch_id:
        known["launch_id"] = call.launch_id
    return known | {value.counter: value.value for value in call.metrics}


def _see_stack(thread: _Thread, stack: Sequence[StackFrame], depth: int) -> None:
    """Take the frames of a stack, whose innermost is at this depth.

    A frame without an id began before what a flight recorder holds: other records know it better.
    """
    for up, (frame, outer) in enumerate(zip_longest(stack, stack[1:])):
        if frame.id:
            _see(thread, frame, depth - up, outer.id if outer else "")


def _see(thread: _Thread, call: StackFrame | WindowCall, depth: int, parent_id: str) -> Slice:
    """Return the slice of a call, which is new or is reported again."""
    known = thread.slices.get(call.id)
    if known is None:
        known = thread.slices[call.id] = Slice(
            call.id, call.function, parent_id, call.entry_us, call.entry_us, depth, False, True
        )
    if call.exit_us:
        known.end_us = max(call.exit_us, call.entry_us)
        known.is_open = False
    if known.arguments is None:
        known.is_anomaly |= call.is_anomaly
    return known


def _window(call: CallRecord) -> Interval:
    """Return the interval of a call's window, from the first entry to the last exit that is known."""
    times = [call.entry_us, call.entry_us + call.inclusive_us]
    for other in call.window:
        times += other.entry_us, max(other.entry_us, other.exit_us)
    return min(times), max(times)


def _united(intervals: Iterable[Interval]) -> list[Interval]:
    united: list[Interval] = []
    for first, last in sorted(intervals):
        if united and first <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], last)
        else:
            united.append((first, last))
    return united


def nested(slices: Iterable[Slice]) -> list[Slice]:
    """Put the calls of a thread into order, set their levels, and make each end within the one around it.

    Times of a sound trace need no change, but the end of an open call is set to the last time at which it is
    known to go on: that of what it contains. Times decide where they can, and depths where a call is open or
    without length: imported records know depths only roughly.
    """
    ordered = sorted(slices, key=_place)
    around = _Around()
    for inner in ordered:
        around.enter(inner)
    around.leave_all()
    return ordered


class _Around:
    """Calls that go on, outermost first."""

    def __init__(self) -> None:
        self._calls: list[Slice] = []
        self._ends_us: list[float] = [math.inf]
        """Time by level at which all calls above it must have ended."""

    def enter(self, inner: Slice) -> None:
        while self._calls and not self._contain(inner):
            self._leave(inner.begin_us)
        inner.level = len(self._calls)
        end_us = self._ends_us[-1]
        if not inner.is_open:
            end_us = inner.end_us = int(min(inner.end_us, end_us))
        self._calls.append(inner)
        self._ends_us.append(end_us)

    def leave_all(self) -> None:
        while self._calls:
            self._leave(math.inf)

    def _contain(self, inner: Slice) -> bool:
        outer, end_us = self._calls[-1], self._ends_us[-1]
        if not outer.is_open and inner.begin_us < end_us and (inner.is_open or inner.end_us <= end_us):
            return True
        is_deeper = inner.depth > outer.depth + (inner.parent_id not in ("", outer.id))
        # A call of no length may stand where the one around it ends.
        is_last = inner.begin_us == end_us and (inner.is_open or inner.end_us == end_us)
        return is_deeper and (inner.begin_us < end_us or is_last)

    def _leave(self, limit_us: float) -> None:
        ended = self._calls.pop()
        self._ends_us.pop()
        ended.end_us = int(min(ended.end_us, limit_us, self._ends_us[-1]))
        if self._calls and self._calls[-1].is_open:
            self._calls[-1].end_us = max(self._calls[-1].end_us, ended.end_us)


def _place(call: Slice) -> tuple[int, ...]:
    """Return where the call's ENTRY stands in the trace: calls of one µs are in that order."""
    return call.begin_us, *map(int, call.id.split(":")[2:])


Pair = tuple[MessagePoint, MessagePoint]
"""Both ends of a message: send and receive."""


def matched(points: Iterable[MessagePoint], within_us: int) -> Iterator[Pair]:
    """Yield sends with their receives, as far as both were recorded.

    A message has no number in a trace. The two ends agree in program, source, destination, tag and size; of
    several the receive is the first after the send, and the send the last before the receive. Since most
    messages are not recorded, those that lie further apart than ``within_us`` are not taken for a pair.
    """
    sends: dict[tuple[int, ...], list[MessagePoint]] = {}
    receives: dict[tuple[int, ...], list[MessagePoint]] = {}
    for point in points:
        ends = sends if point.message.kind == "SEND" else receives
        ends.setdefault(_key(point), []).append(point)
    for key, sent in sends.items():
        yield from _nearest(sorted(sent, key=_time), sorted(receives.get(key, []), key=_time), within_us)


def _nearest(sent: list[MessagePoint], received: list[MessagePoint], within_us: int) -> Iterator[Pair]:
    for send in sent:
        first = bisect_left(received, _time(send), key=_time)
        if first == len(received):
            return
        receive = received[first]
        last = bisect_right(sent, _time(receive), key=_time) - 1
        if sent[last] is send and _time(receive) - _time(send) <= within_us:
            yield send, receive


def _time(point: MessagePoint) -> int:
    return point.message.time_us


def _key(point: MessagePoint) -> tuple[int, ...]:
    message = point.message
    return point.program, message.source, message.destination, message.tag, message.size_bytes
