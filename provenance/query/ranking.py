"""Statistics over the steps of each rank, by which ranks are compared."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from chimbuko.protocol.messages import RankStatistics
from chimbuko.statistics.moments import Moments

CountedSteps = tuple[int, int, int, int, float, int]
"""Program, rank, anomalies per step, steps that had so many, their severity in µs, the last of them."""


def rank_statistics(rows: Iterable[CountedSteps]) -> list[RankStatistics]:
    """One result per (program, rank); ``rows`` are sorted by these two."""
    grouped = groupby(rows, key=lambda row: (row[0], row[1]))
    return [_of_rank(program, rank, list(counted)) for (program, rank), counted in grouped]


def _of_rank(program: int, rank: int, rows: list[CountedSteps]) -> RankStatistics:
    moments = _moments([(anomalies, steps) for _, _, anomalies, steps, _, _ in rows])
    return RankStatistics(
        program=program,
        rank=rank,
        steps=int(moments.n),
        total=sum(anomalies * steps for _, _, anomalies, steps, _, _ in rows),
        mean=moments.mean,
        stddev=moments.stddev,
        minimum=int(moments.minimum),
        maximum=int(moments.maximum),
        skewness=moments.skewness,
        kurtosis=moments.kurtosis,
        severity_us=sum(severity_us for _, _, _, _, severity_us, _ in rows),
        last_step=max(last_step for _, _, _, _, _, last_step in rows),
    )


def _moments(histogram: list[tuple[int, int]]) -> Moments:
    """Moments of values that occur several times, given as (value, times)."""
    n = sum(times for _, times in histogram)
    mean = sum(value * times for value, times in histogram) / n
    m2, m3, m4 = (sum(times * (value - mean) ** power for value, times in histogram) for power in (2, 3, 4))
    values = [value for value, _ in histogram]
    return Moments(n, mean, m2, m3, m4, min(values), max(values))
