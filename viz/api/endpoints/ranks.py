"""Ranks by their anomalies per step, and functions by theirs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.protocol.messages import RankStatistics
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import MAX_LIMIT
from chimbuko.viz.api.statements import ranking_statement
from chimbuko.viz.live.livetotals import FlaggedFunction, Statistic


class RankingParameters(msgspec.Struct, frozen=True, kw_only=True):
    """By what ranks, or functions, are put in order."""

    statistic: Annotated[
        Statistic, Meta(description="Of the anomalies per step; `steps` is how many steps there are.")
    ] = "mean"
    n: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many at either end.")] = 5


class RankingAnswer(Answer, frozen=True, kw_only=True):
    """The ranks with the largest and the smallest value of one statistic of anomalies per step."""

    statistic: Statistic
    n: int
    ranks: int
    """How many there are to choose from."""
    top: list[RankStatistics]
    bottom: list[RankStatistics]


_RANKED_BY = {"stddev": "variance"}
_NO_COLUMN = ("skewness", "kurtosis")
"""They take functions that not every SQLite has."""


def _ranks_statement(_: ServedRun, wanted: RankingParameters) -> str | None:
    if wanted.statistic in _NO_COLUMN:
        return None
    return ranking_statement(_RANKED_BY.get(wanted.statistic, wanted.statistic), wanted.n)


@get("/ranks", _ranks_statement)
def ranks(run: ServedRun, wanted: RankingParameters) -> RankingAnswer:
    """The most and the least problematic ranks.

    By one statistic of their anomalies per step, over all their analysed steps.
    """
    ranking = run.feed.ranking(wanted.statistic, wanted.n)
    return RankingAnswer(**msgspec.structs.asdict(ranking))


class FunctionRankingAnswer(Answer, frozen=True, kw_only=True):
    """The functions with the largest and the smallest value of one statistic of abnormal calls per step."""

    statistic: Statistic
    n: int
    functions: int
    """How many there are to choose from."""
    top: list[FlaggedFunction]
    bottom: list[FlaggedFunction]


@get("/function-ranking")
def function_ranking(run: ServedRun, wanted: RankingParameters) -> FunctionRankingAnswer:
    """The most and the least problematic functions.

    By one statistic of their abnormal calls per analysed step of a rank, over all steps of all ranks of their
    program, those without any included.
    """
    ranking = run.feed.function_ranking(wanted.statistic, wanted.n)
    return FunctionRankingAnswer(**msgspec.structs.asdict(ranking))
