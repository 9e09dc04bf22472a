"""Rankings of ranks and of functions by their anomalies per step, and metadata and counters of the ranks'
streams.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.core.calls.record import CounterStatistics, Metadata
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.filters import Number
from chimbuko.runtime.protocol.messages import RankStatistics
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import MAX_LIMIT, PageParameters, ProgramWanted, page_of
from chimbuko.viz.api.statements import (
    counters_statement,
    metadata_statement,
    of_program,
    ranking_statement,
)
from chimbuko.viz.live.totals import FlaggedFunction, Statistic


class RankingParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Statistic by which ranks, or functions, are put in order."""

    statistic: Annotated[
        Statistic,
        Meta(
            description="Statistic of the anomalies per step; `steps` is the number of steps, "
            "`severity_us` the time that the abnormal calls lost."
        ),
    ] = "mean"
    n: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Number of entries at either end.")] = 5


class RankingAnswer(Answer, frozen=True, kw_only=True):
    """The ranks with the largest and the smallest value of one statistic."""

    statistic: Statistic
    n: int
    ranks: int
    """Number of entries in all."""
    top: list[RankStatistics]
    bottom: list[RankStatistics]


_RANKED_BY = {"stddev": "variance"}
_NO_COLUMN = ("skewness", "kurtosis")
"""Statistics without a column in SQL: they need functions that not every SQLite has."""


def _ranks_statement(_: ServedRun, wanted: RankingParameters) -> str | None:
    if wanted.statistic in _NO_COLUMN:
        return None
    return ranking_statement(_RANKED_BY.get(wanted.statistic, wanted.statistic), wanted.n)


@get("/ranks", _ranks_statement)
def ranks(run: ServedRun, wanted: RankingParameters) -> RankingAnswer:
    """Return the most and the least problematic ranks.

    They are ranked by one statistic of their anomalies per step, or of the time that those lost, over all
    their analysed steps.
    """
    ranking = run.feed.state.totals.ranking(wanted.statistic, wanted.n)
    return RankingAnswer(**msgspec.structs.asdict(ranking))


class FunctionRankingAnswer(Answer, frozen=True, kw_only=True):
    """The functions with the largest and the smallest value of one statistic of abnormal calls per step."""

    statistic: Statistic
    n: int
    functions: int
    """Number of entries in all."""
    top: list[FlaggedFunction]
    bottom: list[FlaggedFunction]


@get("/function-ranking")
def function_ranking(run: ServedRun, wanted: RankingParameters) -> FunctionRankingAnswer:
    """Return the most and the least problematic functions.

    They are ranked by one statistic of their abnormal calls per analysed step of a rank, over all steps of
    all ranks of their program, those without any included.
    """
    ranking = run.feed.state.totals.function_ranking(wanted.statistic, wanted.n)
    return FunctionRankingAnswer(**msgspec.structs.asdict(ranking))


class StreamsParameters(PageParameters, frozen=True, kw_only=True):
    """Filter of streams."""

    program: ProgramWanted = None
    rank: Annotated[Number | None, Meta(description="Number of a rank, of the program or of any.")] = None


class MetadataAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of metadata."""

    metadata: list[Metadata]
    next: str | None
    total: int


class CounterTotals(msgspec.Struct, frozen=True):
    """Totals of all values of one counter of one rank, in the counter's own unit."""

    program: int
    rank: int
    counter: str
    values: int
    mean: float
    stddev: float
    minimum: float
    maximum: float


class CountersAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of counters."""

    counters: list[CounterTotals]
    next: str | None
    total: int


def _metadata_statement(_: ServedRun, wanted: StreamsParameters) -> str:
    return metadata_statement(of_program("m", wanted.program, wanted.rank))


def _counters_statement(_: ServedRun, wanted: StreamsParameters) -> str:
    return counters_statement(of_program("c", wanted.program, wanted.rank))


@get("/metadata", _metadata_statement)
def metadata(run: ServedRun, wanted: StreamsParameters) -> MetadataAnswer:
    """List the metadata that the application's streams brought, by program, rank, thread and key."""
    rows = run.provenance.metadata(wanted.program, wanted.rank)
    page, following = page_of(rows, wanted)
    return MetadataAnswer(metadata=page, next=following, total=len(rows))


@get("/counters", _counters_statement)
def counters(run: ServedRun, wanted: StreamsParameters) -> CountersAnswer:
    """List the totals of each counter of each rank, as last reported."""
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
