"""Timeline: the calls of one rank, from its recorded trace where there is one, else from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.filters import Whole
from chimbuko.provenance.timeline.edges import Links, bundled
from chimbuko.provenance.timeline.rankcalls import JudgedCall, RankCalls
from chimbuko.provenance.timeline.spans import (
    FunctionTime,
    SpanRow,
    SpanWindow,
    overlap_us,
    summed_by_function,
    times_by_function,
)
from chimbuko.provenance.timeline.storedspans import stored_window
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.parameters import RankText, differences, parse_rank, rank_text

Interval = tuple[int, int]

MOST_PARTNERS = 12
MOST_LINKS = 500
"""Most single arrows in a picture: more are a black area, so they come as bundles."""
MOST_LINES = 200
"""Most lines of a selection, which is more than a screen shows."""
MOST_JUDGED = 5000
"""Most recorded calls whose figures are reported, the most severe ones, which takes 0.1 s."""


class TimelineParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Rank, range of time, and size of the picture."""

    rank: Annotated[RankText, Meta(description="A rank as PROGRAM:RANK.")]
    partners: Annotated[
        list[RankText],
        Meta(
            max_length=MOST_PARTNERS,
            description="Ranks whose ends of messages are wanted, too. May be given again.",
        ),
    ] = msgspec.field(default_factory=list, name="with")
    from_us: Annotated[
        Whole | None, Meta(description="First time, µs since the epoch; by default all that is known.")
    ] = None
    to_us: Annotated[Whole | None, Meta(description="Last time, µs since the epoch.")] = None
    columns: Annotated[
        int, Meta(ge=1, le=20_000, description="Columns of the picture: calls shorter than one are merged.")
    ] = 1000


class TimelineRow(msgspec.Struct, frozen=True):
    """The calls of one depth of one thread, in columns with a number for each span."""

    thread: int
    depth: int
    begins_us: list[int]
    """Entry of the first span in µs since the epoch, and then the difference of each entry to the one before
    it.
    """
    runtimes_us: list[int]
    exclusives_us: list[int]
    """Exclusive times in µs; -1 if that is not known."""
    functions: list[int]
    """Indexes in `functions` of the answer; of merged calls the longest one's."""
    steps: list[int]
    """Step of each call; with `rows` it gives the id of the call, PROGRAM:RANK:STEP:ROW."""
    rows: list[int]
    """Row of the first span, and then the difference of each row to the one before it."""
    counts: list[int]
    """Number of calls in each span."""
    flags: list[int]
    """Flags of each span, a sum of: 1 abnormal, 2 has a record, 4 has not ended, 8 rows of the trace were
    lost in it, 16 merged.
    """


class TimelineLinks(msgspec.Struct, frozen=True):
    """Messages and launches, in columns with a number for each."""

    kinds: list[int]
    """Kinds: 0 sent, 1 received, 2 launched on a GPU."""
    times_us: list[int]
    """Times on this rank, in µs since the epoch."""
    threads: list[int]
    depths: list[int]
    """Depths of the calls that they are in; -1 if that is not known."""
    other_us: list[int]
    """Times at the other end, in µs since the epoch; -1 if that is not known."""
    other_ranks: list[int]
    """Ranks at the other end; -1 for launches."""
    other_threads: list[int]
    other_depths: list[int]
    tags: list[int]
    sizes_bytes: list[int]
    counts: list[int]
    """Number of messages or launches in each arrow."""


class ThreadTimes(msgspec.Struct, frozen=True):
    """Thread, or stream of a GPU."""

    thread: int
    is_gpu: bool
    known_us: list[Interval]
    """Ranges of time in which all calls of the thread are known, at the depths that have rows; outside of
    them they were not kept.
    """


class TimelineAnswer(Answer, frozen=True, kw_only=True):
    """Timeline of one rank in a range of time."""

    source: Literal["trace", "store"]
    """Source of the timeline: the recorded trace, with all calls, or the store, with those kept around some
    calls.
    """
    is_recorded: bool
    """Whether a recorded trace of the rank lies where the run found it."""
    from_us: int
    to_us: int
    extent_us: Interval
    """First and last time of the rank, in µs since the epoch."""
    column_us: int
    """Length in µs below which calls are merged; abnormal ones never are."""
    functions: list[str]
    threads: list[ThreadTimes]
    rows: list[TimelineRow]
    links: TimelineLinks
    judged: list[JudgedCall]
    """Recorded calls in the range, the most severe first; of very many not all."""
    lost_us: list[Interval]
    """Ranges of time in which nothing of the rank was analysed."""
    left_out: int
    """Number of recorded calls without the calls around them: of very many only the most severe have those.
    """


@get("/timeline")
def timeline(run: ServedRun, wanted: TimelineParameters) -> TimelineAnswer:
    """Return the calls of a rank in a range of time, nested, with messages and launches."""
    rank = _rank(wanted.rank)
    extent = _extent(run, rank)
    first, last = _range(wanted, extent)
    # Columns that are a power of two µs wide: pictures of the same width share what is merged.
    level = max(0, ((last - first) // wanted.columns).bit_length() - 1)
    partners = [key for key in map(_rank, wanted.partners) if key != rank and key[0] == rank[0]]
    index = run.timelines.index(rank)
    if index is not None:
        others = [found for key in partners if (found := run.timelines.index(key)) is not None]
        window, level = index.window(first, last, level, others)
        extent = min(extent[0], index.header.interval_us[0]), max(extent[1], index.header.interval_us[1])
    else:
        window, level = stored_window(run.provenance, rank, first, last, level, partners)
    judged = RankCalls(run.provenance.calls, rank).within(first, last, MOST_JUDGED)
    return TimelineAnswer(
        source="store" if index is None else "trace",
        is_recorded=run.timelines.is_recorded(rank),
        from_us=first,
        to_us=last,
        extent_us=extent,
        column_us=1 << level,
        functions=_used(window),
        threads=_threads(window),
        rows=_rows(window),
        links=_links(bundled(window.links, MOST_LINKS)),
        judged=list(judged.values()),
        lost_us=[gap for gap in window.lost_us if gap[1] >= first and gap[0] <= last],
        left_out=window.left_out,
    )


class SelectionParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Selected time of some lines of the timeline."""

    lines: Annotated[
        list[Annotated[str, Meta(pattern=r"^[0-9]{1,9}:[0-9]{1,9}(/[0-9]{1,9})?$")]],
        Meta(
            min_length=1,
            max_length=MOST_LINES,
            description="A rank as PROGRAM:RANK, or one of its threads as PROGRAM:RANK/THREAD. May be given "
            "again.",
        ),
    ] = msgspec.field(name="line")
    from_us: Annotated[Whole, Meta(description="First time, µs since the epoch.")]
    to_us: Annotated[Whole, Meta(description="Last time, µs since the epoch.")]


class SelectedLine(msgspec.Struct, frozen=True):
    """Thread in the selection."""

    rank: str
    thread: int
    known_us: int
    """Time of the selection in which all calls of the thread are known."""


class SelectionAnswer(Answer, frozen=True, kw_only=True):
    """Functions in a selected time."""

    from_us: int
    to_us: int
    lines: list[SelectedLine]
    functions: list[FunctionTime]
    """Functions of all calls that are kept, that with most time of its own first."""
    merged_us: int
    """Length in µs below which calls are counted with their neighbours, as those of the longest one's
    function; 0 if all are counted by themselves.
    """


@get("/timeline/functions")
def timeline_functions(run: ServedRun, wanted: SelectionParameters) -> SelectionAnswer:
    """Return what functions took in a range of time, on some ranks or threads, of the calls that are kept."""
    first, last = wanted.from_us, wanted.to_us
    if last < first:
        raise ConfigError(f"to_us={last}: before from_us={first}; exchange the two")
    lines: list[SelectedLine] = []
    times: list[FunctionTime] = []
    merged = 0
    for rank, chosen in _threads_by_rank(wanted.lines).items():
        index = run.timelines.index(rank)
        if index is not None:
            window, level = index.calls(), 0
        else:
            window, level = stored_window(run.provenance, rank, first, last, 0, [])
        merged = max(merged, level)
        rows = [row for row in window.rows if not chosen or row.thread in chosen]
        times += times_by_function(SpanWindow(window.functions, rows), first, last)
        for thread in sorted({row.thread for row in rows}):
            known_us = overlap_us(window.known_us.get(thread, []), first, last)
            lines.append(SelectedLine(rank_text(rank), thread, known_us))
    return SelectionAnswer(
        from_us=first,
        to_us=last,
        lines=lines,
        functions=summed_by_function(times),
        merged_us=1 << merged if merged else 0,
    )


def _threads_by_rank(lines: Sequence[str]) -> dict[RankKey, set[int]]:
    """Return the threads that are wanted of each rank; an empty set for all of them."""
    found: dict[RankKey, set[int]] = {}
    for text, _, thread in (line.partition("/") for line in lines):
        threads = found.setdefault(_rank(text), set())
        if thread:
            threads.add(int(thread))
    for text in lines:
        if "/" not in text:
            found[_rank(text)].clear()
    return found


def _rank(text: str) -> RankKey:
    program, rank = parse_rank(text)
    assert program is not None
    return program, rank


def _extent(run: ServedRun, rank: RankKey) -> Interval:
    """Return the first and last time of the rank's analysed steps; where there is none yet, those of
    the run.
    """
    extent = RankCalls(run.provenance.calls, rank).time_range()
    if extent is None:
        raise Missing(f"rank {rank[0]}:{rank[1]}: no step of it was analysed yet, or there is no such rank")
    return extent


def _range(wanted: TimelineParameters, extent: Interval) -> Interval:
    first = extent[0] if wanted.from_us is None else wanted.from_us
    last = extent[1] if wanted.to_us is None else wanted.to_us
    if last < first:
        raise ConfigError(f"to_us={last}: before from_us={first}; exchange the two")
    return first, last


def _used_numbers(window: SpanWindow) -> npt.NDArray[np.int64]:
    parts = [row.spans["function"] for row in window.rows]
    used: npt.NDArray[np.int64] = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    return used


def _used(window: SpanWindow) -> list[str]:
    """Return the names of the functions that are in the picture."""
    return [window.functions[number] for number in _used_numbers(window).tolist()]


def _rows(window: SpanWindow) -> list[TimelineRow]:
    used = _used_numbers(window)
    return [_row(row, used) for row in window.rows]


def _row(row: SpanRow, used: npt.NDArray[np.int64]) -> TimelineRow:
    spans = row.spans
    return TimelineRow(
        row.thread,
        row.depth,
        differences(spans["begin_us"]),
        (spans["end_us"] - spans["begin_us"]).tolist(),
        spans["exclusive_us"].tolist(),
        np.searchsorted(used, spans["function"]).tolist(),
        spans["step"].tolist(),
        differences(spans["row"]),
        spans["count"].tolist(),
        spans["flags"].tolist(),
    )


def _threads(window: SpanWindow) -> list[ThreadTimes]:
    threads = sorted({row.thread for row in window.rows} | window.known_us.keys())
    return [
        ThreadTimes(thread, thread in window.gpu_threads, window.known_us.get(thread, []))
        for thread in threads
    ]


def _links(links: Links) -> TimelineLinks:
    columns = ("kind", "time_us", "thread", "depth", "other_us", "other_rank", "other_thread", "other_depth")
    return TimelineLinks(*(links[name].tolist() for name in (*columns, "tag", "size_bytes", "count")))
