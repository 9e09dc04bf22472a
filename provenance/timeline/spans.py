"""Spans of a timeline's picture: calls shorter than a column are merged, abnormal ones never.

A *row* holds the calls of one depth of one thread: sorted by entry, and none overlaps another. Where
a column of the picture is 2 ** ``level`` µs wide, calls that are shorter become *busy* spans: one for those
that follow each other with gaps of less than a column, but none across a multiple of 16 columns, so that what
goes on in a long busy stretch is still seen. What is reduced to one level can be reduced on to a higher one,
and is then what the calls themselves would have given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array
from chimbuko.provenance.timeline.edges import LINK, Links

ANOMALY = 1
RECORDED = 2
"""Flag of a call that has a record of its own in the store."""
OPEN = 4
"""Flag of a call that has not ended in anything that was recorded; its runtime is what is known of it."""
DOUBTFUL = 8
"""Flag of a call within which rows of the trace were lost, or whose EXIT was lost."""
BUSY = 16
"""Flag of a span of several short calls."""

SPAN = np.dtype(
    [
        ("begin_us", np.int64),
        ("end_us", np.int64),
        ("exclusive_us", np.int64),  # UNKNOWN where it is not known; of a busy span that of all its calls
        ("longest_us", np.int64),  # runtime of the longest call: its function is the span's
        ("function", np.int32),
        ("step", np.int32),  # with the row the call's id; of a busy span those of its longest call
        ("row", np.int32),
        ("count", np.int32),  # calls
        ("flags", np.uint8),
    ],
    align=True,
)
UNKNOWN = -1
BUSY_COLUMNS_LOG2 = 4
_NEVER = np.iinfo(np.int64).max
MOST_LEVEL = 50
"""Highest level: 2 ** 50 µs are 35 years."""

Spans = npt.NDArray[Any]
"""``SPAN`` records."""


def reduced(row: Spans, level: int) -> Spans:
    """Return a row as it is drawn where a column is 2 ** ``level`` µs wide.

    The result may be the row itself.
    """
    if len(row) < 2:
        return row
    begins, ends = row["begin_us"], row["end_us"]
    column_us = 1 << level
    is_alone = (row["flags"] & (ANOMALY | RECORDED | OPEN)) != 0
    is_short = ((row["longest_us"] < column_us) | ((row["flags"] & BUSY) != 0)) & ~is_alone
    stretch = begins >> (level + BUSY_COLUMNS_LOG2)
    goes_on = is_short[1:] & is_short[:-1]
    goes_on &= (begins[1:] - ends[:-1] < column_us) & (stretch[1:] == stretch[:-1])
    if not goes_on.any():
        return row
    firsts = np.flatnonzero(np.concatenate(([True], ~goes_on)))
    lasts = np.append(firsts[1:], len(row)) - 1
    made = row[_longest(row["longest_us"], firsts, lasts)]
    made["begin_us"], made["end_us"] = begins[firsts], ends[lasts]
    made["count"] = np.add.reduceat(row["count"], firsts)
    exclusive = np.add.reduceat(row["exclusive_us"], firsts)
    is_known = np.minimum.reduceat(row["exclusive_us"], firsts) >= 0
    made["exclusive_us"] = np.where(is_known, exclusive, UNKNOWN)
    is_merged = lasts > firsts
    made["flags"] = np.where(is_merged, np.bitwise_or.reduceat(row["flags"], firsts) | BUSY, made["flags"])
    return made


def _longest(
    runtimes: npt.NDArray[np.int64], firsts: npt.NDArray[np.intp], lasts: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Return the index of the longest of each group of neighbours, the first of several."""
    most = np.maximum.reduceat(runtimes, firsts)
    is_most = runtimes == np.repeat(most, lasts - firsts + 1)
    places = np.where(is_most, np.arange(len(runtimes)), len(runtimes))
    return np.minimum.reduceat(places, firsts)


def within(row: Spans, first_us: int, last_us: int, level: int) -> Spans:
    """Return the part of a reduced row that overlaps a range of time.

    The row may be reduced to any lower level already: the answer is the same.
    """
    first = int(np.searchsorted(row["end_us"], first_us))
    last = int(np.searchsorted(row["begin_us"], last_us, side="right"))
    if first >= last:
        return row[:0]
    # Whole stretches are reduced, or the spans at the edges would not be those of the whole row.
    stretch = level + BUSY_COLUMNS_LOG2
    begin_us = (int(row["begin_us"][first]) >> stretch) << stretch
    end_us = ((int(row["begin_us"][last - 1]) >> stretch) + 1) << stretch
    first, last = (int(at) for at in np.searchsorted(row["begin_us"], (begin_us, end_us)))
    found = reduced(row[first:last], level)
    return found[(found["end_us"] >= first_us) & (found["begin_us"] <= last_us)]


Interval = tuple[int, int]

MOST_SPANS = 60_000
"""Most spans in one answer: 0.5 MB when it is compressed."""


class SpanRow(msgspec.Struct, frozen=True):
    """Calls of one depth of one thread."""

    thread: int
    depth: int
    spans: Spans


class SpanWindow(msgspec.Struct, frozen=True):
    """Rows of a rank, and all that is drawn with them. Times are µs since the epoch."""

    functions: list[str]
    """Names of functions; spans have their numbers, from 0."""
    rows: list[SpanRow] = msgspec.field(default_factory=list)
    """Rows by thread and depth."""
    links: Links = msgspec.field(default_factory=lambda: np.empty(0, LINK))
    known_us: dict[int, list[Interval]] = msgspec.field(default_factory=dict)
    """Intervals by thread in which all of its calls are known, at the depths that have rows."""
    lost_us: list[Interval] = msgspec.field(default_factory=list)
    """Intervals in which nothing was analysed."""
    gpu_threads: list[int] = msgspec.field(default_factory=list)
    left_out: int = 0
    """Number of recorded calls whose windows there was no room for."""

    @property
    def size(self) -> int:
        """Number of spans."""
        return sum(len(row.spans) for row in self.rows)


def cut(window: SpanWindow, first_us: int, last_us: int, level: int) -> tuple[SpanWindow, int]:
    """Return what overlaps a range with short calls merged, and the level, a higher one if that is too much.

    Parameters
    ----------
    level
        A column of the picture is 2 ** ``level`` µs wide.
    """
    rows = [
        SpanRow(row.thread, row.depth, within(row.spans, first_us, last_us, level)) for row in window.rows
    ]
    while sum(len(row.spans) for row in rows) > MOST_SPANS and level < MOST_LEVEL:
        level += 1
        rows = [SpanRow(row.thread, row.depth, reduced(row.spans, level)) for row in rows]
    shown = [row for row in rows if len(row.spans)]
    made = SpanWindow(
        window.functions,
        shown,
        window.links,
        window.known_us,
        window.lost_us,
        window.gpu_threads,
        window.left_out,
    )
    return made, level


def rows_of(
    spans: Spans,
    threads: np.ndarray[tuple[int], np.dtype[np.int32]],
    depths: np.ndarray[tuple[int], np.dtype[np.int32]],
) -> list[SpanRow]:
    """Return spans, given in any order with their threads and depths, as rows."""
    if not len(spans):
        return []
    order = np.lexsort((spans["begin_us"], depths, threads))
    threads, depths, spans = threads[order], depths[order], spans[order]
    is_first = np.ones(len(spans), np.bool_)
    is_first[1:] = (threads[1:] != threads[:-1]) | (depths[1:] != depths[:-1])
    firsts = np.flatnonzero(is_first).tolist()
    ends = [*firsts[1:], len(spans)]
    rows = []
    for first, end in zip(firsts, ends, strict=True):
        spans_of_row = spans[first:end]
        # A damaged trace must not leave overlaps.
        np.minimum(spans_of_row["end_us"][:-1], spans_of_row["begin_us"][1:], out=spans_of_row["end_us"][:-1])
        rows.append(SpanRow(int(threads[first]), int(depths[first]), spans_of_row))
    return rows


def new_spans(count: int) -> Spans:
    """Return records to be filled, for one call each."""
    spans = np.zeros(count, SPAN)
    spans["count"] = 1
    return spans


class FunctionTime(msgspec.Struct, frozen=True):
    """Time of one function's calls in a range of time, as far as it lies in the range."""

    function: str
    calls: int
    """Number of calls that were under way in the range."""
    inclusive_us: int
    """Time in the function and in what it called; a call within one of the same function counts once."""
    exclusive_us: int
    """Time in the function's own code."""
    anomalies: int
    """Number of abnormal calls among them."""


def times_by_function(window: SpanWindow, first_us: int, last_us: int) -> list[FunctionTime]:
    """Return the time of the functions in a range, that with most time of its own first."""
    sums = np.zeros((4, len(window.functions)), np.int64)
    for thread in {row.thread for row in window.rows}:
        rows = [row for row in window.rows if row.thread == thread]
        known = window.known_us.get(thread, [])
        for function, *added in _thread_times(rows, known, first_us, last_us):
            for kept, more in zip(sums, added, strict=True):
                np.add.at(kept, function, more)
    named = ((name, *of_name.tolist()) for name, of_name in zip(window.functions, sums.T, strict=True))
    return summed_by_function(FunctionTime(*of_name) for of_name in named if of_name[1])


def summed_by_function(times: Iterable[FunctionTime]) -> list[FunctionTime]:
    """Return the sums of times by function, that with most time of its own first."""
    sums: dict[str, list[int]] = {}
    for one in times:
        _, *numbers = msgspec.structs.astuple(one)
        sums[one.function] = [
            sum(pair) for pair in zip(sums.get(one.function, [0] * 4), numbers, strict=True)
        ]
    found = [FunctionTime(name, *numbers) for name, numbers in sums.items()]
    return sorted(found, key=lambda one: (-one.exclusive_us, -one.inclusive_us, one.function))


def overlap_us(intervals: Iterable[Interval], first_us: int, last_us: int) -> int:
    """Return how much of a range of time lies in intervals that do not overlap."""
    return sum(max(0, min(end, last_us) - max(begin, first_us)) for begin, end in intervals)


def _thread_times(
    rows: Sequence[SpanRow], known: Sequence[Interval], first_us: int, last_us: int
) -> Iterator[tuple[Int64Array, ...]]:
    """Yield, by depth, functions, calls, inclusive and exclusive time in a range, and abnormal calls."""
    cuts = {row.depth: _overlapping(row.spans, first_us, last_us) for row in rows}
    clipped = {depth: _clipped(spans, first_us, last_us) for depth, spans in cuts.items()}
    outer = _outermost(list(cuts.values()))
    for (depth, spans), is_outer in zip(cuts.items(), outer, strict=True):
        # Where callees are not kept, a caller's time is not its own.
        own = _within(known, spans, first_us, last_us)
        if depth + 1 in cuts:
            inner = np.concatenate(([0], np.cumsum(_within(known, cuts[depth + 1], first_us, last_us))))
            places = np.searchsorted(
                cuts[depth + 1]["begin_us"], np.stack([spans["begin_us"], spans["end_us"]])
            )
            own -= inner[places[1]] - inner[places[0]]
        is_whole = (spans["begin_us"] >= first_us) & (spans["end_us"] <= last_us)
        is_known = is_whole & (spans["exclusive_us"] != UNKNOWN)
        own = np.where(is_known, spans["exclusive_us"], np.maximum(own, 0))
        calls = spans["count"].astype(np.int64)
        abnormal = ((spans["flags"] & ANOMALY) != 0).astype(np.int64)
        yield spans["function"], calls, np.where(is_outer, clipped[depth], 0), own, abnormal


def _overlapping(row: Spans, first_us: int, last_us: int) -> Spans:
    """Return the spans of a row of which some time lies in a range."""
    first = int(np.searchsorted(row["end_us"], first_us, side="right"))
    last = int(np.searchsorted(row["begin_us"], last_us))
    return row[first : max(first, last)]


def _within(known: Sequence[Interval], spans: Spans, first_us: int, last_us: int) -> Int64Array:
    """Return how much of each span lies in a range and in the intervals in which all calls are known."""
    begins, ends = np.array([*sorted(known), (_NEVER, _NEVER)], np.int64).T
    before = np.concatenate(([0], np.cumsum(ends - begins)))

    def known_until(us: Int64Array) -> Int64Array:
        at = np.searchsorted(begins, us, side="right")
        last = np.maximum(at - 1, 0)
        beyond = np.where(at > 0, np.maximum(ends[last] - us, 0), 0)
        until: Int64Array = before[at] - beyond
        return until

    from_us, to_us = np.maximum(spans["begin_us"], first_us), np.minimum(spans["end_us"], last_us)
    return known_until(to_us) - known_until(from_us)


def _clipped(spans: Spans, first_us: int, last_us: int) -> Int64Array:
    clipped: Int64Array = np.minimum(spans["end_us"], last_us) - np.maximum(spans["begin_us"], first_us)
    return clipped


def _outermost(rows: Sequence[Spans]) -> list[npt.NDArray[np.bool_]]:
    """Return, for the rows of one thread, which spans lie in no other one of the same function."""
    spans = np.concatenate(rows)
    depths = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    order = np.lexsort((depths, spans["begin_us"], spans["function"]))
    # Calls of one thread overlap only as caller and callee: one that begins after all before it have ended
    # is in none of them. Functions are kept apart by more than there is time.
    begins = spans["begin_us"][order] - spans["begin_us"].min(initial=_NEVER)
    ends = spans["end_us"][order] - spans["begin_us"].min(initial=_NEVER)
    apart = spans["function"][order].astype(np.int64) * (int(ends.max(initial=0)) + 1)
    latest = np.maximum.accumulate(ends + apart)
    is_outer = np.ones(len(spans), np.bool_)
    is_outer[order[1:]] = begins[1:] + apart[1:] >= latest[:-1]
    return np.split(is_outer, np.cumsum([len(row) for row in rows])[:-1])
