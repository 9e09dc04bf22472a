"""Recorded calls: lists of them, all of a list at once, and one with everything kept about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chimbuko.errors import ConfigError
from chimbuko.provenance.calls import CallFilter, CallSummary, Sort
from chimbuko.records import CallRecord
from chimbuko.viz.api.distribution import Distribution, distribution
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.parameters import (
    MAX_LIMIT,
    AnyRankText,
    Cursor,
    Limit,
    Number,
    ProgramWanted,
    Text,
    Whole,
    parse_rank,
)

EventId = Annotated[
    str,
    Meta(
        pattern="^[0-9]{1,9}:[0-9]{1,9}:[0-9]{1,9}:[0-9]{1,9}$",
        description="The id of a call, as PROGRAM:RANK:STEP:ROW.",
    ),
]


class FilterParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls are wanted: those to which all apply that is given."""

    label: Annotated[Literal["anomaly", "normal", "any"], Meta(description="What the detector said.")] = (
        "anomaly"
    )
    function: Annotated[
        Text | None, Meta(description="Name of a function, or a pattern with `*` and `?`.")
    ] = None
    program: ProgramWanted = None
    rank: Annotated[
        AnyRankText | None,
        Meta(description="A rank as PROGRAM:RANK, or RANK of the `program` or of any."),
    ] = None
    thread: Annotated[Number | None, Meta(description="Number of a thread of the rank.")] = None
    step_min: Annotated[Whole | None, Meta(description="First step in which calls ended.")] = None
    step_max: Annotated[Whole | None, Meta(description="Last step in which calls ended.")] = None
    time_min_us: Annotated[
        Whole | None, Meta(description="Calls under way at this time or later, µs since the epoch.")
    ] = None
    time_max_us: Annotated[
        Whole | None, Meta(description="Calls under way at this time or earlier, µs since the epoch.")
    ] = None
    min_severity_us: Annotated[float | None, Meta(description="Least time lost.")] = None
    min_score: Annotated[float | None, Meta(description="Least score.")] = None
    is_open: Annotated[bool | None, Meta(description="Whether the call has not ended yet.")] = None

    def call_filter(self) -> CallFilter:
        """As provenance understands it."""
        program, rank = (None, None) if self.rank is None else parse_rank(self.rank)
        return CallFilter(
            label=None if self.label == "any" else self.label,
            function=self.function,
            program=self.program if program is None else program,
            rank=rank,
            thread=self.thread,
            step_min=self.step_min,
            step_max=self.step_max,
            time_min_us=self.time_min_us,
            time_max_us=self.time_max_us,
            min_severity_us=self.min_severity_us,
            min_score=self.min_score,
            is_open=self.is_open,
        )


class OrderedFilterParameters(FilterParameters, frozen=True, kw_only=True):
    """Which calls are wanted, and in what order."""

    sort: Annotated[Sort, Meta(description="What calls are sorted by.")] = "severity_us"
    descending: Annotated[bool, Meta(description="Whether the largest comes first.")] = True


class CallsParameters(OrderedFilterParameters, frozen=True, kw_only=True):
    """Which calls are wanted, in what order, and which piece of their list."""

    limit: Limit = 50
    cursor: Cursor = None


class CallsAnswer(Answer, frozen=True, kw_only=True):
    """A piece of a list of calls."""

    calls: list[CallSummary]
    next: str | None
    """Cursor of the piece that follows; null at the end."""
    total: int
    """Calls in the whole list."""


class CallParameters(msgspec.Struct, frozen=True):
    """Which call."""

    event_id: EventId


class CallAnswer(Answer, frozen=True, kw_only=True):
    """One call, and what to compare it with."""

    record: CallRecord
    normal: CallRecord | None
    """The recorded normal call of the same function that is nearest to it."""
    distribution: Distribution | None
    """Of the function's runtimes, by the model that judged the call; null where none was kept up to then."""


@get("/calls")
def calls(run: ServedRun, wanted: CallsParameters) -> CallsAnswer:
    """Calls that a filter matches, in pages."""
    chosen = wanted.call_filter()
    page = run.provenance.calls(
        chosen, sort=wanted.sort, descending=wanted.descending, limit=wanted.limit, cursor=wanted.cursor
    )
    return CallsAnswer(calls=page.calls, next=page.next, total=run.provenance.count(chosen))


@get("/calls.ndjson")
def all_calls(run: ServedRun, wanted: OrderedFilterParameters) -> Iterator[CallSummary]:
    """All calls that a filter matches, one a line, as lists show them."""
    chosen, cursor = wanted.call_filter(), None
    while True:
        # By pages: a statement left open for a slow reader would keep the store from tidying up.
        page = run.provenance.calls(
            chosen, sort=wanted.sort, descending=wanted.descending, limit=MAX_LIMIT, cursor=cursor
        )
        yield from page.calls
        cursor = page.next
        if cursor is None:
            return


@get("/records.ndjson")
def records(run: ServedRun, wanted: FilterParameters) -> Iterator[CallRecord]:
    """All calls that a filter matches, one a line, with everything kept about each.

    They come in order of program, rank and step.
    """
    return run.provenance.records(wanted.call_filter())


@get("/calls/{event_id}")
def call(run: ServedRun, wanted: CallParameters) -> CallAnswer:
    """One call with its stack, neighbours, messages and counters, beside a normal one."""
    try:
        record = run.provenance.call(wanted.event_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    model = run.provenance.model_of(record.program, record.function, record.model_version)
    return CallAnswer(
        record=record,
        normal=run.provenance.normal_like(record),
        distribution=distribution(model, record.detector) if model else None,
    )
