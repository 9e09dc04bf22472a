"""What can be asked of the steps of a run, one by one or summed up for charts of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec
from sqlalchemy import ColumnElement, func, literal, select

from chimbuko.core.calls.record import StepCount
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.planner import of_ranks
from chimbuko.provenance.query.reader import RunReader
from chimbuko.provenance.store.levels import LEVELS
from chimbuko.provenance.store.tables import (
    ALL_RANKS,
    NEVER_US,
    STEP_HISTOGRAMS,
    STEP_LEVELS,
    STEPS,
    STREAM_HEALTH,
)
from chimbuko.runtime.protocol.messages import RankStatistics


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


class Steps:
    """The steps of a run's ranks, and what follows from them."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def counts(
        self,
        ranks: Sequence[tuple[int, int]] | None = None,
        step_min: int | None = None,
        step_max: int | None = None,
    ) -> list[StepCount]:
        """What each analysed step counted, by program, rank and step.

        Parameters
        ----------
        ranks
            (program, rank) of those wanted; None for all.
        step_min, step_max
            First and last step wanted.
        """
        conditions: list[ColumnElement[bool]] = []
        if ranks is not None:
            conditions.append(of_ranks(ranks, STEPS.c))
        if step_min is not None:
            conditions.append(STEPS.c.step >= step_min)
        if step_max is not None:
            conditions.append(STEPS.c.step <= step_max)
        return self._reader.all(StepCount, STEPS, *conditions)

    def sums(
        self,
        level: int,
        ranks: Sequence[tuple[int, int]] | None = None,
        steps: tuple[int, int] | None = None,
    ) -> list[StepSum]:
        """Steps summed up by 8 ** ``level``, by program, rank and step.

        Parameters
        ----------
        level
            0 to 4.
        ranks
            (program, rank) of those wanted, with what they counted; None: of all ranks of a program together.
        steps
            First and last step wanted, of all ranks together; None for all.
        """
        if ranks is None:
            return self._kept_sums(level, *_over_all_ranks(level, steps))
        kept = self._kept_sums(level, of_ranks(ranks, STEP_LEVELS.c)) if level else []
        after = dict.fromkeys(ranks, 0)
        after.update({(of.program, of.rank): of.step + of.length for of in kept})
        rest = [step for key, first in after.items() for step in self.counts([key], step_min=first)]
        return sorted([*kept, *summed(rest, 8**level)], key=lambda of: (of.program, of.rank, of.step))

    def firsts(self) -> dict[tuple[int, int], int]:
        """(Program, rank) to its first analysed step."""
        stream, step = STREAM_HEALTH.c, STEPS.c
        # For each rank a look at its key: all steps of ten thousand ranks take seconds.
        first = (
            select(func.min(step.step))
            .where(step.run == stream.run, step.program == stream.program, step.rank == stream.rank)
            .scalar_subquery()
        )
        rows = self._reader.rows(
            select(stream.program, stream.rank, first).where(stream.run == self._reader.run)
        )
        return {(program, rank): number for program, rank, number in rows if number is not None}

    def gaps(self, ranks: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """First and last step of each gap before an analysed step, by (program, rank), in order."""
        step = STEPS.c
        before = func.lag(step.step, 1, -1).over(partition_by=(step.program, step.rank), order_by=step.step)
        steps = (
            select(step.program, step.rank, step.step, before.label("before"))
            .where(step.run == self._reader.run, of_ranks(ranks, step))
            .subquery()
        )
        lost = steps.c
        rows = self._reader.rows(
            select(lost.program, lost.rank, lost.before + 1, lost.step - 1)
            .where(lost.step - lost.before > 1)
            .order_by(lost.program, lost.rank, lost.step)
        )
        found: dict[tuple[int, int], list[tuple[int, int]]] = {rank: [] for rank in ranks}
        for program, rank, first, last in rows:
            found[program, rank].append((first, last))
        return found

    def time_range(self) -> tuple[int, int] | None:
        """Start of the first and end of the last analysed step, in µs; None before there is one."""
        total = STEP_LEVELS.c
        statement = select(func.min(total.start_us), func.max(total.end_us)).where(
            total.run == self._reader.run,
            total.level == LEVELS[-1],
            total.rank == ALL_RANKS,
            total.start_us < NEVER_US,
        )
        start, end = self._reader.rows(statement)[0]
        return None if start is None else (start, end)

    def rank_statistics(self) -> list[RankStatistics]:
        """Anomalies per step of each rank, over all its analysed steps."""
        cell = STEP_HISTOGRAMS.c
        columns = (cell.program, cell.rank, cell.anomalies, cell.steps, cell.severity_us, cell.last_step)
        statement = select(*columns).where(cell.run == self._reader.run, cell.steps > 0)
        return rank_statistics([tuple(row) for row in self._reader.rows(statement.order_by(*columns[:3]))])

    def _kept_sums(self, level: int, *conditions: ColumnElement[bool]) -> list[StepSum]:
        total = STEP_LEVELS.c
        columns = (total.program, total.rank, total.bucket * 8**level, literal(8**level), total.steps)
        numbers = (total[name] for name in StepSum.__struct_fields__[len(columns) :])
        statement = select(*columns, *numbers).where(
            total.run == self._reader.run, total.level == level, *conditions
        )
        return [StepSum(*row) for row in self._reader.rows(statement.order_by(*columns[:2], total.bucket))]


def _over_all_ranks(level: int, steps: tuple[int, int] | None) -> list[ColumnElement[bool]]:
    total = STEP_LEVELS.c
    among = [] if steps is None else [total.bucket.between(*(step // 8**level for step in steps))]
    return [total.rank == ALL_RANKS, *among]


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
