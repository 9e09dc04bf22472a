"""Losses of ranks as nodes report them, made by hand, for stories of ``tests.causes.flagged``."""

from __future__ import annotations

from msgspec.structs import replace

from chimbuko.monitor.sampling.nodebatch import NodeBatch, RankLoss
from tests.causes.flagged import at
from tests.causes.nodes import batch, other, ticks


def loss(rank: int, begin_ms: float, end_ms: float, lost_ms: float, is_stopped: bool = False) -> RankLoss:
    return RankLoss(0, rank, is_stopped, at(begin_ms), at(end_ms), round(1000 * lost_ms))


def shared(*losses: RankLoss, by: str = "spinner") -> NodeBatch:
    """Ranks share core 1 with somebody else for two seconds, and have it for themselves before and after."""
    rows = []
    for rank in {one.rank for one in losses}:
        rows += [*ticks(rank, -200, 0, core=1), *ticks(rank, 2_000, 2_200, core=1)]
        rows += ticks(rank, 0, 2_000, ran_us=10_000, waited_us=10_000, core=1)
    made = batch(rows, [other(0, 2_000, 1, 1_000, by)], losses=list(losses))
    return replace(made, end_us=max(made.end_us, *(one.end_us for one in losses)))
