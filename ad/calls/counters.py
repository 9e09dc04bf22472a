"""Counters of one stream: statistics of each, the state of the node, and metrics of calls.

``Metrics`` gives the increase of each counter of ``TAU_METRICS`` in a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.calls.launches import CORRELATION_ID
from chimbuko.ad.calls.selection import NO_METRICS, CallMetrics, StepCounters, table
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import metrics as kernels
from chimbuko.ad.kernels.metrics import EVENT, METRIC, NUMBERED, UNDECIDED, WATCHED, read_counters, recognise
from chimbuko.ad.kernels.retained import MAX_COUNTERS, open_rows
from chimbuko.ad.kernels.stack import MAX_THREAD_ID, NONE
from chimbuko.core.arrays import Float64Array, Int32Array, UInt64Array, grown, longer
from chimbuko.core.calls.record import CounterStatistics
from chimbuko.core.calls.recordarrays import COUNTER
from chimbuko.core.statistics.moments import EMPTY
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep

MAX_METRICS = 25
"""Maximum number of metrics that TAU takes at a time."""


class Metrics:
    """Running totals of metrics of each thread, now and at the ENTRY of each open call.

    Parameters
    ----------
    rank
        Rows of any other rank are left out.
    """

    def __init__(self, rank: int) -> None:
        self._rank = np.uint64(rank)
        self._counters = np.empty(0, np.int32)
        self._slots = np.empty(0, np.int32)
        self._gap_steps = 0
        self._numbers = np.empty(0, np.int32)
        self._series = _no_series()
        self._threads = _no_totals()
        self._open = _no_totals()

    def __getstate__(self) -> dict[str, Any]:
        if not len(self._counters):
            return {"_rank": self._rank}
        return self.__dict__ | {"_numbers": None, "_series": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(int(state["_rank"]))  # type: ignore[misc]
        self.__dict__.update(state | {"_series": self._series})
        self._numbers = np.full(MAX_THREAD_ID if len(self._counters) else 0, NONE, np.int32)

    def add(self, counter: int) -> None:
        """Treat a counter as a metric from now on, unless there are too many."""
        if not len(self._counters):
            self._numbers = np.full(MAX_THREAD_ID, NONE, np.int32)
        if len(self._counters) < MAX_METRICS:
            slots = np.full(max(len(self._slots), counter + 1), NONE, np.int32)
            slots[: len(self._slots)] = self._slots
            slots[counter] = len(self._counters)
            self._slots = slots
            self._counters = np.append(self._counters, np.int32(counter))

    def step(
        self, counters: UInt64Array, stacks: CallStacks, rows: Int32Array, moments: Float64Array
    ) -> tuple[CallMetrics, Int32Array]:
        """Read the counter values of the next step, whose calls were built.

        Parameters
        ----------
        rows
            Calls that ended in the step.
        moments
            Moments of the increase of each metric from one EXIT to the next, which are updated;
            float64[counters, 7].

        Returns
        -------
        CallMetrics
            Increase of each metric in the calls of ``rows``.
        Int32Array
            Call that each value belongs to, int32[values]; NONE for none, and for values of metrics.
        """
        if not len(self._counters):
            return NO_METRICS, stacks.counter_calls
        owners = self._read(counters, stacks)
        metrics = self._measure(stacks, rows)
        self._note(stacks, moments)
        return metrics, owners

    def _read(self, counters: UInt64Array, stacks: CallStacks) -> Int32Array:
        threads = stacks.thread_count
        self._numbers[stacks.threads["id"][:threads]] = np.arange(threads, dtype=np.int32)
        self._threads = _with_room(self._threads, threads)
        self._open = _with_room(self._open, stacks.carried)
        if stacks.gap_steps != self._gap_steps:
            # The values in between are not known.
            self._gap_steps = stacks.gap_steps
            self._threads.is_known[:] = 0
            self._open.is_known[:] = 0
        if len(self._series.times) < len(counters):
            times, values = (np.empty(2 * len(counters), np.uint64) for _ in range(2))
            self._series = self._series._replace(times=times, values=values)
        if len(self._series.starts) != threads * len(self._counters) + 1:
            starts = np.zeros(threads * len(self._counters) + 1, np.int64)
            self._series = self._series._replace(starts=starts)
        owners = stacks.counter_calls.copy()
        kernels.sort_series(
            counters,
            self._rank,
            self._slots,
            len(self._counters),
            self._numbers,
            owners,
            self._series,
        )
        return owners

    def _measure(self, stacks: CallStacks, rows: Int32Array) -> CallMetrics:
        counts = np.empty(len(rows), np.int32)
        into = table(COUNTER, len(rows) * len(self._counters))
        count = kernels.measure_calls(
            stacks.calls,
            stacks.carried,
            rows,
            self._counters,
            self._series,
            self._threads,
            self._open,
            counts,
            into,
        )
        return CallMetrics(counts, into[:count])

    def _note(self, stacks: CallStacks, moments: Float64Array) -> None:
        opened = open_rows(stacks.calls, stacks.threads, stacks.thread_count)
        self._open = _with_room(self._open, len(opened))
        kernels.note_totals(
            stacks.calls,
            stacks.carried,
            opened,
            self._counters,
            self._series,
            self._threads,
            self._open,
            moments,
        )


def _no_series() -> kernels.Series:
    return kernels.Series(np.zeros(1, np.int64), *(np.empty(0, np.uint64) for _ in range(2)))


def _no_totals() -> kernels.Totals:
    return kernels.Totals(np.empty((0, MAX_METRICS), np.uint64), np.empty((0, MAX_METRICS), np.uint8))


def _with_room(totals: kernels.Totals, rows: int) -> kernels.Totals:
    """Return the totals with at least so many rows; unknown ones are marked as such."""
    return kernels.Totals(grown(totals.values, rows), grown(totals.is_known, rows))


class Counters:
    """Counters of one stream.

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
        """Read the counter values of the next step, whose calls were built; measure those in ``rows``."""
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
        """Return statistics of all counters that have had values."""
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
        """Recognise metrics among the counters."""
        undecided = self._kinds == UNDECIDED
        exit_type = np.uint64(names.event_type_id(EventType.EXIT))
        recognise(step.events, step.counters, self._rank, exit_type, self._kinds)
        for counter in np.flatnonzero(undecided & (self._kinds == METRIC)).tolist():
            self._metrics.add(counter)
            # Statistics of a metric are those of its increases, not of its totals.
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
