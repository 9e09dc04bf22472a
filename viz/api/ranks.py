"""Ranks by their anomalies per step."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.messages import RankStatistics
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import MAX_LIMIT
from chimbuko.viz.tally import Statistic


class RankingParameters(msgspec.Struct, frozen=True, kw_only=True):
    """By what ranks are put in order."""

    statistic: Annotated[Statistic, Meta(description="Of the anomalies per step of each rank.")] = "mean"
    n: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Ranks at either end.")] = 5


class RankingAnswer(Answer, frozen=True, kw_only=True):
    """The ranks with the largest and the smallest value of one statistic of anomalies per step."""

    statistic: Statistic
    n: int
    ranks: int
    """How many there are to choose from."""
    top: list[RankStatistics]
    bottom: list[RankStatistics]


@get("/ranks")
def ranks(run: ServedRun, wanted: RankingParameters) -> RankingAnswer:
    """The most and the least problematic ranks.

    By one statistic of their anomalies per step, over all their analysed steps.
    """
    ranking = run.feed.ranking(wanted.statistic, wanted.n)
    return RankingAnswer(**msgspec.structs.asdict(ranking))
