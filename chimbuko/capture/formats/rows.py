"""Makes steps of a stream, in TAU's layout, of the events of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import numpy as np

from chimbuko.capture.formats.readers.events import EVENT, NO_NAME, Catalogue, Dropped, Kind, Track, TrackKind
from chimbuko.core.arrays import Table, UInt64Array
from chimbuko.core.traceschema import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    EVENT_COLUMNS,
    EVENT_RANK,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    MAX_TIME_US,
    NO_PEER,
    OPERATION_COLUMNS,
    EventType,
    Operation,
    StreamNames,
)

# Makes calls of events of tracks: on each thread of a stream calls nest, whatever a trace says.
#
# A track becomes a thread, its first lane; a call that begins within another one and ends after it, as
# asynchronous ones do, goes to a further lane, which is a thread of its own.


TOLERANCE_NS: Final = 1000
"""Time in ns by which a call may end after the one that contains it: times of traces are rounded to 1 µs."""
MOST_LANES: Final = 256
NEVER: Final = 1 << 63

Edge = tuple[int, int, int, int]
"""Time in ns, 0 for ENTRY or 1 for EXIT, lane and name."""


class Open(msgspec.Struct):
    """A call that has begun."""

    name: int
    end_ns: int
    """``NEVER`` where that is not known yet."""
    of: int


class Lane(msgspec.Struct):
    """A thread of the stream."""

    number: int
    stack: list[Open] = msgspec.field(default_factory=list)
    ending: int = 0
    """Calls in it whose end is known."""


class TrackCalls:
    """The open calls of one track, across the steps of a stream.

    Parameters
    ----------
    new_lane
        Gives a lane its number.
    """

    def __init__(self, catalogue: Catalogue, kind: TrackKind, new_lane: Callable[[], int]) -> None:
        self._losses = catalogue.losses
        self._is_asynchronous = kind is TrackKind.ASYNCHRONOUS
        self._new_number = new_lane
        self._lanes = [Lane(new_lane())]
        self._lane_of: dict[int, Lane] = {}

    @property
    def first_lane(self) -> int:
        """Lane of the track's counters and messages."""
        return self._lanes[0].number

    def begin(self, time_ns: int, name: int, of: int, edges: list[Edge]) -> None:
        """Begin a call whose end is not known."""
        self.pass_to(time_ns, edges)
        lane = self._lanes[0] if not self._is_asynchronous else self._lane_of.get(of) or self._empty_lane()
        if self._is_asynchronous:
            self._lane_of[of] = lane
        self._enter(lane, Open(name, NEVER, of), time_ns, edges)

    def end(self, time_ns: int, name: int, of: int, edges: list[Edge]) -> None:
        """End the innermost call of that name, and all calls in it."""
        self.pass_to(time_ns, edges)
        lane = self._lane_of.get(of) if self._is_asynchronous else self._lanes[0]
        stack = lane.stack if lane is not None else []
        at = next((at for at in reversed(range(len(stack))) if _is_ended(stack[at], name)), None)
        if at is None or lane is None:
            self._losses[Dropped.NOT_BEGUN] += 1
            return
        edges.append((time_ns, 1, lane.number, stack[at].name))
        lane.ending -= sum(call.end_ns != NEVER for call in stack[at:])
        del stack[at:]
        if not stack:
            self._lane_of.pop(of, None)

    def call(self, time_ns: int, end_ns: int, name: int, of: int, edges: list[Edge]) -> None:
        """Take a whole call."""
        self.pass_to(time_ns, edges)
        for lane in self._lanes:
            around_ns = lane.stack[-1].end_ns if lane.stack else NEVER
            if end_ns <= around_ns + TOLERANCE_NS and not (self._is_asynchronous and lane.stack):
                self._enter(lane, Open(name, min(end_ns, around_ns), of), time_ns, edges)
                return
        self._enter(self._new_lane(), Open(name, end_ns, of), time_ns, edges)

    def pass_to(self, time_ns: int, edges: list[Edge]) -> None:
        """Advance to a time, and end the calls whose end is known and before it."""
        for lane in self._lanes:
            while lane.ending:
                stack = lane.stack
                at = len(stack) - 1
                while stack[at].end_ns == NEVER:
                    at -= 1
                if stack[at].end_ns > time_ns:
                    break
                edges.append((stack[at].end_ns, 1, lane.number, stack[at].name))
                lane.ending -= 1
                del stack[at:]

    def _enter(self, lane: Lane, call: Open, time_ns: int, edges: list[Edge]) -> None:
        lane.stack.append(call)
        lane.ending += call.end_ns != NEVER
        edges.append((time_ns, 0, lane.number, call.name))

    def _empty_lane(self) -> Lane:
        return next((lane for lane in self._lanes if not lane.stack), None) or self._new_lane()

    def _new_lane(self) -> Lane:
        if len(self._lanes) >= MOST_LANES:
            self._losses[Dropped.MANY_LANES] += 1
            return self._lanes[-1]
        self._lanes.append(Lane(self._new_number()))
        return self._lanes[-1]


def _is_ended(call: Open, name: int) -> bool:
    return call.end_ns == NEVER and name in (NO_NAME, call.name)


NS_PER_US: Final = 1000
THREAD_NAME: Final = "Thread Name"
PROCESS_NAME: Final = "Process Name"
GPU_STREAM: Final = "CUDA Stream"
"""Key of metadata of a thread that stands for a stream of a GPU, whoever made it."""


# Plain numbers, since they are compared with for each event.
_BEGIN, _END, _CALL = int(Kind.BEGIN), int(Kind.END), int(Kind.CALL)


class StepRows(msgspec.Struct, frozen=True):
    """The arrays of one step, as ``TraceStep`` has them."""

    events: UInt64Array
    comms: UInt64Array
    counters: UInt64Array
    operations: UInt64Array

    @property
    def rows(self) -> int:
        """Rows of all arrays together."""
        return len(self.events) + len(self.comms) + len(self.counters) + len(self.operations)


class ProcessRows:
    """The stream of one process, step by step.

    Parameters
    ----------
    process
        Its number in the catalogue.
    rank_of
        Ranks of processes.
    origin_ns
        The time of the trace that is 0 in the stream.
    program
        Name of the program of the stream.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        process: int,
        rank_of: Callable[[int], int],
        origin_ns: int,
        program: str,
    ) -> None:
        self.names = StreamNames(program=program)
        self.names.event_types |= {int(kind): kind.name for kind in EventType}
        self._catalogue = catalogue
        self._rank_of = rank_of
        self.rank = rank_of(process)
        self._origin_ns = origin_ns
        self._lanes = 0
        self._tracks: dict[int, TrackCalls] = {}
        self._timers: dict[int, int] = {}
        self._counters: dict[int, int] = {}
        self._operations: Counter[int] = Counter()
        """Collective operations of each group so far."""
        about = catalogue.processes[process]
        self.names.metadata |= {(self.rank, 0, key): value for key, value in about.about.items()}
        if about.name:
            self.names.metadata[self.rank, 0, PROCESS_NAME] = about.name
        for number, track in enumerate(catalogue.tracks):
            if track.process == process and track.is_main:
                self._track(number)

    def step(self, events: Table, end_ns: int) -> StepRows:
        """Return the next events, in order of time; ``end_ns`` is a time before which none will come any
        more.
        """
        edges: list[Edge] = []
        comms: list[tuple[int, ...]] = []
        counters: list[tuple[int, ...]] = []
        operations: list[tuple[int, ...]] = []
        # Rows of a structured array would come three times as slowly.
        columns = (events[name].tolist() for name in EVENT.names or ())
        for time_ns, value, of, number, name, kind in zip(*columns, strict=True):
            track = self._tracks.get(number) or self._track(number)
            if kind == _CALL:
                track.call(time_ns, time_ns + value, name, of, edges)
            elif kind == _BEGIN:
                track.begin(time_ns, name, of, edges)
            elif kind == _END:
                track.end(time_ns, name, of, edges)
            elif kind == Kind.COUNTER:
                point = self._counter(name), value, self._us(time_ns)
                counters.append((0, self.rank, track.first_lane, *point))
            elif kind == Kind.COLLECTIVE:
                operation = self._operations[of], value, 0, self._us(time_ns)
                self._operations[of] += 1
                begun = Operation.COLLECTIVE, of, NO_PEER
                operations.append((0, self.rank, track.first_lane, *begun, *operation))
            else:
                event_type = EventType.SEND if kind == Kind.SEND else EventType.RECV
                message = event_type, name, self._rank_of(of), value, self._us(time_ns)
                comms.append((0, self.rank, track.first_lane, *message))
        for track in self._tracks.values():
            track.pass_to(end_ns, edges)
        return StepRows(
            self._event_rows(edges),
            _array(comms, COMM_COLUMNS),
            _array(counters, COUNTER_COLUMNS),
            _array(operations, OPERATION_COLUMNS),
        )

    def _event_rows(self, edges: list[Edge]) -> UInt64Array:
        columns = np.array(edges, np.int64).reshape(-1, 4)
        rows = np.zeros((len(columns), EVENT_COLUMNS), np.uint64)
        rows[:, EVENT_RANK] = self.rank
        rows[:, EVENT_TYPE] = columns[:, 1]
        rows[:, EVENT_THREAD] = columns[:, 2]
        times_us = (columns[:, 0] - self._origin_ns) // NS_PER_US
        rows[:, EVENT_TIME] = np.clip(times_us, 1, MAX_TIME_US - 1)
        # In the order in which they come, so that the numbers of timers are those of their first calls.
        names, firsts, places = np.unique(columns[:, 3], return_index=True, return_inverse=True)
        timers = np.zeros(len(names), np.uint64)
        for at in np.argsort(firsts).tolist():
            timers[at] = self._timer(int(names[at]))
        rows[:, EVENT_TIMER] = timers[places]
        # Within a thread they are in order.
        return rows[np.argsort(rows[:, EVENT_TIME], kind="stable")]

    def _us(self, time_ns: int) -> int:
        return min(max((time_ns - self._origin_ns) // NS_PER_US, 1), MAX_TIME_US - 1)

    def _track(self, number: int) -> TrackCalls:
        kind = self._catalogue.tracks[number].kind
        new_lane = partial(self._new_lane, self._catalogue.tracks[number])
        track = self._tracks[number] = TrackCalls(self._catalogue, kind, new_lane)
        return track

    def _new_lane(self, track: Track) -> int:
        """Return the number of a thread of the stream, with what is known of it."""
        lane = self._lanes
        self._lanes += 1
        metadata = self.names.metadata
        metadata |= {(self.rank, lane, key): value for key, value in track.about.items()}
        if track.name:
            metadata[self.rank, lane, THREAD_NAME] = track.name
        if track.kind is TrackKind.GPU:
            metadata.setdefault((self.rank, lane, GPU_STREAM), "0")
        return lane

    def _timer(self, name: int) -> int:
        timer = self._timers.get(name)
        if timer is None:
            timer = self._timers[name] = len(self._timers)
            self.names.timers[timer] = self._catalogue.names[name]
        return timer

    def _counter(self, name: int) -> int:
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = len(self._counters)
            self.names.counters[counter] = self._catalogue.names[name]
        return counter


def _array(rows: list[tuple[int, ...]], columns: int) -> UInt64Array:
    return np.array(rows, np.uint64).reshape(-1, columns)
