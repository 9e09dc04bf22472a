"""The counters of one stream: statistics of each, the state of the node, and metrics of calls."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.counters import EVENT, METRIC, NUMBERED, UNDECIDED, WATCHED, read_counters
from chimbuko.ad.kernels.metrics import recognise
from chimbuko.ad.kernels.retained import MAX_COUNTERS
from chimbuko.ad.kernels.stack import NONE
from chimbuko.ad.records.attachments import StepCounters, table
from chimbuko.ad.records.correlation import CORRELATION_ID
from chimbuko.ad.records.metrics import Metrics
from chimbuko.core.arrays import Int32Array, longer
from chimbuko.core.calls.record import CounterStatistics
from chimbuko.core.calls.recordarrays import COUNTER
from chimbuko.core.statistics.moments import EMPTY
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep


class Counters:
    """What is known of the counters of one stream.

    Parameters
    ----------
    rank
        Rows of any other rank are left out.
    watched
        Prefixes of the names of counters that describe the node rather than a call.
    """

    def __init__(self, rank: int, watched: tuple[str, ...]) -> None:
        self._rank = np.uint64(rank)
        self._is_watched = watched
        self._names: dict[int, str] = {}
        self._kinds = np.empty(0, np.uint8)
        self._moments = np.empty((0, len(EMPTY)))
        self._node_state = table(COUNTER, 0)
        self._places = np.empty(0, np.int32)
        self._watched = 0
        self._metrics = Metrics(rank)

    def step(self, step: TraceStep, names: StreamNames, stacks: CallStacks, rows: Int32Array) -> StepCounters:
        """Take in the counter values of the next step, whose calls were built; measure those in ``rows``."""
        if len(names.counters) != len(self._names):
            self._note_names(names.counters)
        self._watched, is_undecided = read_counters(
            step.counters,
            self._rank,
            self._kinds,
            self._moments,
            self._node_state,
            self._places,
            self._watched,
        )
        if is_undecided:
            self._recognise(step, names)
        metrics, owners = self._metrics.step(step.counters, stacks, rows, self._moments)
        return StepCounters(metrics, owners, self._node_state[: self._watched])

    def statistics(self) -> list[CounterStatistics]:
        """Of all counters that have had values."""
        return [
            CounterStatistics(name, *self._moments[number].tolist())
            for number, name in self._names.items()
            if number < MAX_COUNTERS and self._moments[number, 0]
        ]

    def _note_names(self, names: dict[int, str]) -> None:
        new = {number: name for number, name in names.items() if number not in self._names}
        self._names |= new
        new = {number: name for number, name in new.items() if number < MAX_COUNTERS}
        self._reserve(max(new, default=-1) + 1)
        for number, name in new.items():
            self._kinds[number] = self._kind(name)
            self._moments[number] = EMPTY

    def _kind(self, name: str) -> int:
        if name == CORRELATION_ID:
            return NUMBERED
        return WATCHED if name.startswith(self._is_watched) else UNDECIDED

    def _recognise(self, step: TraceStep, names: StreamNames) -> None:
        """Look for metrics among the counters that may be."""
        undecided = self._kinds == UNDECIDED
        exit_type = np.uint64(names.event_type_id(EventType.EXIT))
        recognise(step.events, step.counters, self._rank, exit_type, self._kinds)
        for counter in np.flatnonzero(undecided & (self._kinds == METRIC)).tolist():
            self._metrics.add(counter)
            # Statistics of a metric are those of its rises, not of its totals.
            self._moments[counter] = EMPTY

    def _reserve(self, count: int) -> None:
        if count <= len(self._kinds):
            return
        self._kinds = longer(self._kinds, count, EVENT)
        self._moments = longer(self._moments, count, EMPTY)
        self._places = longer(self._places, count, NONE)
        node_state = table(COUNTER, count)
        node_state[: self._watched] = self._node_state[: self._watched]
        self._node_state = node_state
