"""What streams say of themselves: metadata, and totals of their counters."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.calls.record import CounterStatistics, Metadata
from chimbuko.provenance.query.filters import Number
from chimbuko.statistics.moments import Moments
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.pages import PageParameters, page_of
from chimbuko.viz.api.parameters import ProgramWanted
from chimbuko.viz.api.statements import counters_statement, metadata_statement, of_program


class StreamsParameters(PageParameters, frozen=True, kw_only=True):
    """Of which streams."""

    program: ProgramWanted = None
    rank: Annotated[Number | None, Meta(description="Number of a rank, of the program or of any.")] = None


class MetadataAnswer(Answer, frozen=True, kw_only=True):
    """A piece of the list of metadata."""

    metadata: list[Metadata]
    next: str | None
    total: int


class CounterTotals(msgspec.Struct, frozen=True):
    """All values of one counter of one rank, in the counter's own unit."""

    program: int
    rank: int
    counter: str
    values: int
    mean: float
    stddev: float
    minimum: float
    maximum: float


class CountersAnswer(Answer, frozen=True, kw_only=True):
    """A piece of the list of counters."""

    counters: list[CounterTotals]
    next: str | None
    total: int


def _metadata_statement(_: ServedRun, wanted: StreamsParameters) -> str:
    return metadata_statement(of_program("m", wanted.program, wanted.rank))


def _counters_statement(_: ServedRun, wanted: StreamsParameters) -> str:
    return counters_statement(of_program("c", wanted.program, wanted.rank))


@get("/metadata", _metadata_statement)
def metadata(run: ServedRun, wanted: StreamsParameters) -> MetadataAnswer:
    """Metadata that the application's streams brought, by program, rank, thread and key."""
    rows = run.provenance.metadata(wanted.program, wanted.rank)
    page, following = page_of(rows, wanted)
    return MetadataAnswer(metadata=page, next=following, total=len(rows))


@get("/counters", _counters_statement)
def counters(run: ServedRun, wanted: StreamsParameters) -> CountersAnswer:
    """Totals of each counter of each rank, as last reported."""
    rows = [
        (program, rank, counter)
        for program, rank, counter in run.provenance.counter_statistics()
        if wanted.program in (None, program) and wanted.rank in (None, rank)
    ]
    page, following = page_of(rows, wanted)
    return CountersAnswer(counters=[_totals(*row) for row in page], next=following, total=len(rows))


def _totals(program: int, rank: int, counter: CounterStatistics) -> CounterTotals:
    moments = Moments(*msgspec.structs.astuple(counter)[1:])
    return CounterTotals(
        program=program,
        rank=rank,
        counter=counter.name,
        values=int(moments.n),
        mean=moments.mean,
        stddev=moments.stddev,
        minimum=moments.minimum,
        maximum=moments.maximum,
    )
