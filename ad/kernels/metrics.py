"""Counter values, compiled: statistics of each counter, the state of the node, and metrics of calls; wrapped
by ``ad.calls.counters``.

A metric is a counter with a row at every EXIT, which holds a running total. A *series* is what one metric
counted on one thread; its number is the thread's times the number of metrics plus the metric's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.points import is_absurd
from chimbuko.ad.kernels.stack import MAX_THREAD_ID, NONE
from chimbuko.core.arrays import Int32Array, Table, UInt8Array, UInt64Array
from chimbuko.core.kernels.arrays import first_above, nones, zeros
from chimbuko.core.kernels.declare import inner, kernel
from chimbuko.core.kernels.merge import add_value
from chimbuko.core.traceschema import (
    COUNTER_NUMBER,
    COUNTER_PROGRAM,
    COUNTER_RANK,
    COUNTER_THREAD,
    COUNTER_TIME,
    COUNTER_VALUE,
    EVENT_PROGRAM,
    EVENT_RANK,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TYPE,
)

UNDECIDED = 0
"""Kind of a counter of which it is not known yet whether it is a metric."""
EVENT = 1
"""Kind of a counter that counts something when it happens."""
WATCHED = 2
"""Kind of a counter that describes the node rather than a call."""
METRIC = 3
"""Kind of a counter that has a row at every EXIT, with a running total."""
NUMBERED = 4
"""Kind of a counter whose values are names and not quantities."""


@kernel
def read_counters(
    counters: npt.NDArray[np.uint64],
    rank: np.uint64,
    kinds: npt.NDArray[np.uint8],
    moments: npt.NDArray[np.float64],
    node_state: Table,
    places: npt.NDArray[np.int32],
    watched: int,
) -> tuple[int, bool]:
    """Add the values of a step to ``moments``, and note the latest ones of watched counters.

    Parameters
    ----------
    counters
        uint64[n, 6] in TAU's layout. Rows of another rank, without a possible time or of a counter without a
        kind are left out.
    kinds
        Kind of each counter, uint8[counters].
    moments
        Moments of each counter, added to; float64[counters, 7].
    node_state
        ``COUNTER`` rows: one for each watched counter, in order of first appearance.
    places
        Row of ``node_state`` of each counter, or NONE; int32[counters].
    watched
        Number of rows of ``node_state`` in use. The new number is returned, and whether there were rows of
        undecided counters.
    """
    is_undecided = False
    for at in range(len(counters)):
        number = counters[at, COUNTER_NUMBER]
        if (
            counters[at, COUNTER_PROGRAM] != 0
            or counters[at, COUNTER_RANK] != rank
            or number >= np.uint64(len(kinds))
        ):
            continue
        kind = kinds[number]
        if kind in (METRIC, NUMBERED) or is_absurd(counters[at, COUNTER_TIME]):
            continue
        is_undecided |= kind == UNDECIDED
        add_value(moments[number], np.float64(counters[at, COUNTER_VALUE]))
        if kind == WATCHED:
            if places[number] == NONE:
                places[number] = watched
                watched += 1
            state = node_state[places[number]]
            state.time_us = counters[at, COUNTER_TIME]
            state.value = counters[at, COUNTER_VALUE]
            state.counter = number
            state.step = NONE
            state.row = NONE
    return watched, is_undecided


class Series(NamedTuple):
    """The rows of a step's metrics, series by series, in order of time."""

    starts: npt.NDArray[np.int64]
    """Index where each series begins, int64[series + 1]."""
    times: UInt64Array
    values: UInt64Array


class Totals(NamedTuple):
    """Running totals of all metrics, of threads or of open calls."""

    values: UInt64Array
    """Running total of each metric, uint64[rows, metrics]."""
    is_known: UInt8Array


LEAST_EXITS = 10
"""Number of EXITs, each with a row, that make a counter a metric."""
MOST_APART = 1
"""Number of EXITs on each thread whose rows may stand in different steps."""


@kernel
def recognise(
    events: UInt64Array, counters: UInt64Array, rank: np.uint64, exit_type: np.uint64, kinds: UInt8Array
) -> None:
    """Decide which of the undecided counters are metrics; ``kinds`` is uint8[counters].

    A metric has one row for each EXIT of a thread, at the same time, and its values never fall.
    """
    numbers = nones(np.int64(MAX_THREAD_ID))
    threads = 0
    for row in range(len(events)):
        if _is_exit(events, row, rank, exit_type) and numbers[events[row, EVENT_THREAD]] == NONE:
            numbers[events[row, EVENT_THREAD]] = threads
            threads += 1
    ends = zeros(threads + 1)
    for row in range(len(events)):
        if _is_exit(events, row, rank, exit_type):
            ends[numbers[events[row, EVENT_THREAD]] + 1] += 1
    for thread in range(threads):
        ends[thread + 1] += ends[thread]
    exits = np.empty(ends[threads], np.uint64)
    at = _begins(ends)
    for row in range(len(events)):
        if _is_exit(events, row, rank, exit_type):
            thread = numbers[events[row, EVENT_THREAD]]
            exits[at[thread]] = events[row, EVENT_TIME]
            at[thread] += 1
    for counter in range(len(kinds)):
        if kinds[counter] == UNDECIDED:
            kinds[counter] = _judged(counters, rank, np.uint64(counter), numbers, exits, ends)


@inner
def _begins(ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a copy of all but the last, to continue from."""
    begins = np.empty(len(ends) - 1, np.int64)
    for number in range(len(begins)):
        begins[number] = ends[number]
    return begins


@inner
def _is_exit(events: UInt64Array, row: int, rank: np.uint64, exit_type: np.uint64) -> bool:
    is_own = (
        events[row, EVENT_PROGRAM] == 0
        and events[row, EVENT_RANK] == rank
        and events[row, EVENT_THREAD] < np.uint64(MAX_THREAD_ID)
    )
    return bool(is_own and events[row, EVENT_TYPE] == exit_type)


@inner
def _judged(
    counters: UInt64Array,
    rank: np.uint64,
    counter: np.uint64,
    numbers: Int32Array,
    exits: UInt64Array,
    ends: npt.NDArray[np.int64],
) -> int:
    """Return the kind of a counter, by comparing its rows with the times of the EXITs of each thread."""
    threads = len(ends) - 1
    at = _begins(ends)
    apart = zeros(threads)
    is_seen = zeros(threads)
    last = np.empty(threads, np.uint64)
    for thread in range(threads):
        last[thread] = 0
    matched = 0
    for row in range(len(counters)):
        is_own = (
            counters[row, COUNTER_PROGRAM] == 0
            and counters[row, COUNTER_RANK] == rank
            and counters[row, COUNTER_NUMBER] == counter
        )
        if not is_own or counters[row, COUNTER_THREAD] >= np.uint64(MAX_THREAD_ID):
            continue
        thread = numbers[counters[row, COUNTER_THREAD]]
        if thread == NONE or counters[row, COUNTER_VALUE] < last[thread]:
            return EVENT
        is_seen[thread] = 1
        last[thread] = counters[row, COUNTER_VALUE]
        while at[thread] < ends[thread + 1] and exits[at[thread]] < counters[row, COUNTER_TIME]:
            at[thread] += 1
            apart[thread] += 1
        if at[thread] < ends[thread + 1] and exits[at[thread]] == counters[row, COUNTER_TIME]:
            at[thread] += 1
            matched += 1
        else:
            apart[thread] += 1
    for thread in range(threads):
        if is_seen[thread] != 0 and apart[thread] + ends[thread + 1] - at[thread] > MOST_APART:
            return EVENT
    return METRIC if matched >= LEAST_EXITS else UNDECIDED


@kernel
def sort_series(
    counters: UInt64Array,
    rank: np.uint64,
    slots: Int32Array,
    metrics: int,
    numbers: Int32Array,
    owners: Int32Array,
    series: Series,
) -> None:
    """Sort the rows of metrics by series, and take them away from their ``owners``.

    Parameters
    ----------
    slots
        Number of the metric of each counter, or NONE; int32[counters].
    numbers
        Thread number of each of TAU's thread ids, or NONE; int32[MAX_THREAD_ID].
    owners
        Call of each of the ``counters``, uint64[n, 6]; of metrics NONE afterwards; int32[n].
    """
    starts, times, values = series.starts, series.times, series.values
    for number in range(len(starts)):
        starts[number] = 0
    for row in range(len(counters)):
        number = _series(counters, row, rank, slots, metrics, numbers)
        if number != NONE:
            owners[row] = NONE
            starts[number + 1] += 1
    for number in range(len(starts) - 1):
        starts[number + 1] += starts[number]
    at = _begins(starts)
    for row in range(len(counters)):
        number = _series(counters, row, rank, slots, metrics, numbers)
        if number != NONE:
            times[at[number]] = counters[row, COUNTER_TIME]
            values[at[number]] = counters[row, COUNTER_VALUE]
            at[number] += 1


@inner
def _series(
    counters: UInt64Array,
    row: int,
    rank: np.uint64,
    slots: Int32Array,
    metrics: int,
    numbers: Int32Array,
) -> int:
    """Return the number of a row's series; NONE for a row of another counter, or a useless one."""
    series = NONE
    if counters[row, COUNTER_NUMBER] < np.uint64(len(slots)) and slots[counters[row, COUNTER_NUMBER]] != NONE:
        is_own = counters[row, COUNTER_PROGRAM] == 0 and counters[row, COUNTER_RANK] == rank
        is_own = is_own and counters[row, COUNTER_THREAD] < np.uint64(MAX_THREAD_ID)
        if (
            is_own
            and not is_absurd(counters[row, COUNTER_TIME])
            and numbers[counters[row, COUNTER_THREAD]] != NONE
        ):
            series = numbers[counters[row, COUNTER_THREAD]] * metrics + slots[counters[row, COUNTER_NUMBER]]
    return series


@kernel
def measure_calls(
    calls: Table,
    carried: int,
    rows: Int32Array,
    metrics: Int32Array,
    series: Series,
    threads: Totals,
    opened: Totals,
    counts: Int32Array,
    into: Table,
) -> int:
    """Write into ``into``, ``COUNTER`` rows, the increase of each metric in each of the calls in ``rows``;
    return the number of rows.

    It is the increase from the thread's last EXIT before the call, or at its ENTRY, to the call's EXIT; a
    metric of which either is not known is left out.

    Parameters
    ----------
    metrics
        Counter of each metric, int32[metrics].
    threads
        Totals when the step began.
    opened
        Totals when the carried calls were entered.
    counts
        Number of metrics of each call, int32[rows].
    """
    starts, times, values = series
    count = 0
    for at in range(len(rows)):
        row = rows[at]
        begin = count
        for metric in range(len(metrics)):
            thread = calls[row].thread
            number = thread * len(metrics) + metric
            end = _last_until(calls[row].exit, times, starts[number], starts[number + 1])
            if end == NONE or times[end] != calls[row].exit:
                continue
            if row < carried:
                is_measured = opened.is_known[row, metric] != 0
                before = opened.values[row, metric]
            else:
                first = _last_until(calls[row].entry, times, starts[number], starts[number + 1])
                is_measured = first != NONE or threads.is_known[thread, metric] != 0
                before = values[first] if first != NONE else threads.values[thread, metric]
            if is_measured and before <= values[end]:
                value = into[count]
                value.time_us = calls[row].exit
                value.value = values[end] - before
                value.counter = metrics[metric]
                value.step = calls[row].step
                value.row = calls[row].row
                count += 1
        counts[at] = count - begin
    return count


@inner
def _last_until(time: np.uint64, times: UInt64Array, start: int, end: int) -> int:
    """Return the index of the last of ``times[start:end]`` that is not later than ``time``, or NONE."""
    at = start + first_above(times[start:end], time) - 1
    return at if at >= start else NONE


@kernel
def note_totals(
    calls: Table,
    carried: int,
    rows: Int32Array,
    metrics: Int32Array,
    series: Series,
    threads: Totals,
    opened: Totals,
    moments: npt.NDArray[np.float64],
) -> None:
    """Note the totals at the ENTRY of the calls that are open, ``rows``, int32[n] ascending, and of all
    threads.

    ``moments``, float64[counters, 7], receive the increase of each metric from one EXIT to the next. The
    other parameters are as for ``measure_calls``.
    """
    starts, times, values = series
    for at in range(len(rows)):
        row = rows[at]
        thread = calls[row].thread
        for metric in range(len(metrics)):
            number = thread * len(metrics) + metric
            # Carried calls stand first, so they only move towards the front.
            if row < carried:
                opened.values[at, metric] = opened.values[row, metric]
                opened.is_known[at, metric] = opened.is_known[row, metric]
                continue
            first = _last_until(calls[row].entry, times, starts[number], starts[number + 1])
            is_here = first != NONE
            opened.values[at, metric] = values[first] if is_here else threads.values[thread, metric]
            opened.is_known[at, metric] = 1 if is_here else threads.is_known[thread, metric]
    for number in range(len(starts) - 1):
        thread, metric = number // len(metrics), number % len(metrics)
        for at in range(starts[number], starts[number + 1]):
            before = threads.values[thread, metric]
            if threads.is_known[thread, metric] != 0 and values[at] >= before:
                add_value(moments[metrics[metric]], np.float64(values[at] - before))
            threads.values[thread, metric] = values[at]
            threads.is_known[thread, metric] = 1
