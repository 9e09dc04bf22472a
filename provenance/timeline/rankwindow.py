"""What is known of one rank in a range of time, ready for a picture."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chimbuko.provenance.timeline.edges import LINK, Links
from chimbuko.provenance.timeline.spans import MOST_LEVEL, SPAN, Spans, reduced, within

Interval = tuple[int, int]

MOST_SPANS = 60_000
"""In one answer: 0.5 MB when it is compressed."""


@dataclass(frozen=True)
class SpanRow:
    """The calls of one depth of one thread."""

    thread: int
    depth: int
    spans: Spans


@dataclass(frozen=True)
class SpanWindow:
    """The rows of a rank, and all that is drawn with them. Times are µs since the epoch."""

    functions: list[str]
    """Names of the spans' functions, which are numbers from 0."""
    rows: list[SpanRow] = field(default_factory=list)
    """By thread and depth."""
    links: Links = field(default_factory=lambda: np.empty(0, LINK))
    known_us: dict[int, list[Interval]] = field(default_factory=dict)
    """By thread: when all of its calls are here, at the depths that have rows."""
    lost_us: list[Interval] = field(default_factory=list)
    """When nothing was analysed."""
    gpu_threads: list[int] = field(default_factory=list)
    left_out: int = 0
    """Recorded calls whose windows there was no room for."""

    @property
    def size(self) -> int:
        """How many spans there are."""
        return sum(len(row.spans) for row in self.rows)


def cut(window: SpanWindow, first_us: int, last_us: int, level: int) -> tuple[SpanWindow, int]:
    """What overlaps a range, with short calls merged, and at which level: a higher one where it is too much.

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
    """Spans in no order, each with its thread and depth, as rows."""
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
        # Damage in a trace must not leave overlaps.
        np.minimum(spans_of_row["end_us"][:-1], spans_of_row["begin_us"][1:], out=spans_of_row["end_us"][:-1])
        rows.append(SpanRow(int(threads[first]), int(depths[first]), spans_of_row))
    return rows


def new_spans(count: int) -> Spans:
    """Records to be filled, of one call each."""
    spans = np.zeros(count, SPAN)
    spans["count"] = 1
    return spans
