"""Makes steps of a stream, in TAU's layout, of the events of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import numpy as np

from chimbuko.capture.formats.nesting import Edge, TrackCalls
from chimbuko.capture.formats.readers.events import EVENT, Catalogue, Kind, Track, TrackKind
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
