"""Steps summed up: what charts of many steps show."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from chimbuko.calls.record import StepCount
from chimbuko.provenance.store.tables import NEVER_US


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
