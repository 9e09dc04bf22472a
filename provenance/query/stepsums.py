"""Steps summed up: what charts of many steps show."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from chimbuko.calls.record import StepCount
from chimbuko.protocol.messages import RankStatistics
from chimbuko.provenance.store.tables import NEVER_US
from chimbuko.statistics.moments import Moments


class StepSum(msgspec.Struct, frozen=True, array_like=True):
    """Some steps, one after the other, of one rank or of all."""

    program: int
    rank: int
    """-1: all of the program."""
    step: int
    """First of the steps."""
    length: int
    """How many there may be."""
    steps: int
    """How many were analysed, added up over ranks."""
    start_us: int
    """Of the first that had an event; ``NEVER_US`` where none had."""
    end_us: int
    calls: int
    anomalies: int
    severity_us: float
    highest_score: float
    most_anomalies: int
    """That one rank had in one step."""


def summed(steps: Iterable[StepCount], length: int) -> list[StepSum]:
    """Steps of ranks, sorted by program, rank and step, summed up by so many."""
    groups = groupby(steps, key=lambda step: (step.program, step.rank, step.step // length * length))
    return [_sum(*key, length, list(some)) for key, some in groups]


def _sum(program: int, rank: int, first: int, length: int, steps: list[StepCount]) -> StepSum:
    return StepSum(
        program,
        rank,
        first,
        length,
        len(steps),
        min(step.start_us or NEVER_US for step in steps),
        max(step.end_us for step in steps),
        sum(step.calls for step in steps),
        sum(step.anomalies for step in steps),
        sum(step.severity_us for step in steps),
        max(step.highest_score for step in steps),
        max(step.anomalies for step in steps),
    )


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
