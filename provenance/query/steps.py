"""Answers about the steps of a run: one by one, or summed up for charts of many.

The most anomalies of a step, and the most time lost in one, are known by stretches of a rank's steps: a row
of ``step_levels`` holds eight stretches, so an hour of 10,000 ranks is read as 560,000 rows, with eight steps
in a stretch. What buckets do not hold yet is read from the levels below, and at last from the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
import numpy as np
from sqlalchemy import ColumnElement, func, literal, select

from chimbuko.core.arrays import Int64Array, RankKey, UInt8Array
from chimbuko.core.calls.record import StepCount
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.planner import of_ranks
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.coarserlevels import LEVELS, MOST_SHOWN, lost_code_sql
from chimbuko.provenance.store.tables import (
    ALL_RANKS,
    NEVER_US,
    SPENT,
    STEP_HISTOGRAMS,
    STEP_LEVELS,
    STEPS,
    STREAM_HEALTH,
)
from chimbuko.runtime.protocol.messages import RankStatistics


class StepSum(msgspec.Struct, frozen=True, array_like=True):
    """Sums over some consecutive steps of one rank or of all."""

    program: int
    rank: int
    """Rank; -1 for all of the program."""
    step: int
    """First of the steps."""
    length: int
    """Number of steps that there may be."""
    steps: int
    """Number of steps that were analysed, added up over ranks."""
    start_us: int
    """Start of the first step that had an event; ``NEVER_US`` where none had."""
    end_us: int
    calls: int
    anomalies: int
    severity_us: float
    highest_score: float
    most_anomalies: int
    """Most anomalies that one rank had in one step."""
    computing_us: int
    """Time of threads in their own code, as in ``StepCount``."""
    mpi_us: int
    io_us: int
    gpu_us: int
    awaiting_us: int


class Steps:
    """Steps of a run's ranks, and what follows from them."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def counts(
        self,
        ranks: Sequence[tuple[int, int]] | None = None,
        step_min: int | None = None,
        step_max: int | None = None,
    ) -> list[StepCount]:
        """Return what was counted in each analysed step, by program, rank and step.

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
        """Return sums over 8 ** ``level`` steps, by program, rank and step.

        Parameters
        ----------
        level
            0 to 4.
        ranks
            (program, rank) of those wanted; None for all ranks of a program together.
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
        """Return the first analysed step of each (program, rank)."""
        stream, step = STREAM_HEALTH.c, STEPS.c
        # One look at the key for each rank, as to read all steps of ten thousand ranks takes seconds.
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
        """Return first and last step of each gap before an analysed step, by (program, rank), in order."""
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
        """Return start of the first and end of the last analysed step, in µs; None before there is one."""
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
        """Return anomalies per step of each rank, over all its analysed steps."""
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


_spent = attrgetter(*SPENT)


def summed(steps: Iterable[StepCount], length: int) -> list[StepSum]:
    """Sum up steps of ranks, sorted by program, rank and step, in groups of ``length``."""
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
        *(sum(spent) for spent in zip(*map(_spent, steps), strict=True)),
    )


CountedSteps = tuple[int, int, int, int, float, int]
"""Program, rank, anomalies per step, number of steps that had so many, their severity in µs, and the last of
them."""


def rank_statistics(rows: Sequence[CountedSteps]) -> list[RankStatistics]:
    """Return statistics for each (program, rank); ``rows`` are sorted by these two."""
    if not rows:
        return []
    # Of all ranks at once: of 100,000 it takes a third of the time, for which a page waits.
    programs, ranks, anomalies, steps, severity_us, last_steps = np.array(rows, np.float64).T
    is_first = np.append(True, (np.diff(programs) != 0) | (np.diff(ranks) != 0))
    begins = np.flatnonzero(is_first)
    n = np.add.reduceat(steps, begins)
    totals = np.add.reduceat(anomalies * steps, begins)
    means = totals / n
    deviations = anomalies - means[np.cumsum(is_first) - 1]
    powers = (np.add.reduceat(steps * deviations**power, begins).tolist() for power in (2, 3, 4))
    ends = (of.reduceat(anomalies, begins).tolist() for of in (np.minimum, np.maximum))
    moments = map(Moments, n.tolist(), means.tolist(), *powers, *ends)
    keys = programs[begins], ranks[begins], totals
    sums = np.add.reduceat(severity_us, begins), np.maximum.reduceat(last_steps, begins)
    columns = (column.tolist() for column in (*keys, *sums))
    return [
        RankStatistics(
            program=int(program),
            rank=int(rank),
            steps=int(of.n),
            total=int(total),
            mean=of.mean,
            stddev=of.stddev,
            minimum=int(of.minimum),
            maximum=int(of.maximum),
            skewness=of.skewness,
            kurtosis=of.kurtosis,
            severity_us=severity,
            last_step=int(last_step),
        )
        for of, program, rank, total, severity, last_step in zip(moments, *columns, strict=True)
    ]


QUIET = 0x01_01_01_01_01_01_01_01
"""``peaks`` of a bucket all of whose eighths were analysed and had no anomaly."""
_PROGRAM = 1 << 32
_KEY = f"s.program * {_PROGRAM} + s.rank"
_SHOWN = f"CASE WHEN t.anomalies < {MOST_SHOWN} THEN t.anomalies ELSE {MOST_SHOWN} END + 1"


class Peaks(msgspec.Struct, frozen=True):
    """Stretches of steps; those of a row follow each other. Rows of a rank begin at different steps."""

    length: int
    """Steps of a stretch."""
    programs: Int64Array
    """Program of each row, i8[n]."""
    ranks: Int64Array
    steps: Int64Array
    """Step at which the first stretch of each row begins, i8[n]."""
    most: UInt8Array
    """Most anomalies of a step in each stretch plus one, up to 255, u1[n, stretches]; 0 if no step was
    analysed, or another row covers the stretch."""
    lost: UInt8Array
    """Code of the most time that was lost in a step of each stretch, plus one, u1[n, stretches]."""


def step_peaks(
    reader: RunReader,
    level: int,
    ranks: tuple[RankKey, RankKey] | None = None,
    steps: tuple[int, int] | None = None,
) -> Iterator[Peaks]:
    """Yield peaks in stretches of 8 ** (``level`` - 1) steps, and shorter ones at the end.

    Parameters
    ----------
    level
        1 to 4.
    ranks
        First and last (program, rank) wanted; None for all.
    steps
        First and last step wanted; their neighbours in a bucket are reported too. None for all.
    """
    wanted = _Wanted(reader.run, ranks, steps)
    yield from _whole_buckets(reader, level, wanted)
    for of in range(level - 1, 0, -1):
        yield _peaks(
            of, _read(reader, ("t.program", "t.rank", "t.bucket", "t.peaks", "t.lost_peaks"), wanted.rest(of))
        )
    # Single steps are put into buckets as those of the first level are.
    peaks = (
        f"SUM(CAST({shown} AS BIGINT) << 8 * (t.step - t.step / 8 * 8))"
        for shown in (_SHOWN, f"{lost_code_sql('t.severity_us')} + 1")
    )
    grouped = f"{wanted.rest(0)} GROUP BY t.program, t.rank, t.step / 8"
    yield _peaks(1, _read(reader, ("t.program", "t.rank", "t.step / 8", *peaks), grouped))


def _whole_buckets(reader: RunReader, level: int, wanted: _Wanted) -> Iterator[Peaks]:
    """Yield the peaks of a level, with a row for each rank.

    Most buckets are quiet, and only counted: to read each of them would take three times as long.
    """
    of_rank = f"FROM step_levels AS t WHERE {wanted.steps_of(level)}"
    first, last, count = (f"(SELECT {of}(t.bucket) {of_rank})" for of in ("MIN", "MAX", "COUNT"))
    counts_of = _KEY, f"COALESCE({first}, 0)", f"COALESCE({last}, 0)", count
    table = _read(reader, counts_of, f"FROM stream_health AS s WHERE {wanted.streams}")
    table = table[table[:, 3] > 0]
    if not len(table):
        return
    keys, firsts, lasts, counts = table[np.argsort(table[:, 0])].T
    has_gaps = counts <= lasts - firsts
    begin = int(firsts.min())
    buckets = np.arange(begin, lasts.max() + 1)
    is_quiet = (buckets >= firsts[:, None]) & (buckets <= lasts[:, None]) & ~has_gaps[:, None]
    peaks = np.where(is_quiet, np.int64(QUIET), np.int64(0))
    lost_peaks = peaks.copy()
    condition = f"t.peaks <> {QUIET}"
    if has_gaps.any():
        condition += f" OR {_KEY} IN ({', '.join(map(str, keys[has_gaps].tolist()))})"
    rows = _read(
        reader, (_KEY, "t.bucket", "t.peaks", "t.lost_peaks"), f"{wanted.all(level)} AND ({condition})"
    )
    # Buckets that were written since the count are reported with what is new.
    of_ranks, at, *values = rows[np.isin(rows[:, 0], keys) & np.isin(rows[:, 1], buckets)].T
    place = np.searchsorted(keys, of_ranks), at - begin
    peaks[place], lost_peaks[place] = values
    places = np.full(len(keys), begin * 8**level)
    yield Peaks(
        8 ** (level - 1), keys // _PROGRAM, keys % _PROGRAM, places, _eighths(peaks), _eighths(lost_peaks)
    )


def _read(reader: RunReader, columns: Sequence[str], of: str) -> Int64Array:
    """Return whole numbers, i8[rows, columns], of a statement given by its columns and the rest."""
    named = ", ".join(f"{column} AS c{number}" for number, column in enumerate(columns))
    row = " || ' ' || ".join(f"c{number}" for number in range(len(columns)))
    with reader.connected() as connection:
        # As one text, which the database makes by itself: for each row the driver would wait for its turn
        # among the threads that answer pages, for a second in all.
        together = "GROUP_CONCAT" if reader.is_sqlite else "STRING_AGG"
        statement = f"SELECT {together}({row}, ' ') FROM (SELECT {named} {of}) AS found"
        text: str | None = connection.exec_driver_sql(statement).scalar()
    return np.fromstring(text or "", np.int64, sep=" ").reshape(-1, len(columns))


class _Wanted(msgspec.Struct, frozen=True):
    """Parts of a statement that select streams ``s``, and their buckets or steps ``t``."""

    run: int
    ranks: tuple[RankKey, RankKey] | None
    steps: tuple[int, int] | None

    @property
    def streams(self) -> str:
        """Return the condition that wanted streams meet."""
        if self.ranks is None:
            return f"s.run = {self.run}"
        # As one number: from two columns SQLite would draw conclusions for the other table, and search that.
        first, last = (program * _PROGRAM + rank for program, rank in self.ranks)
        return f"s.run = {self.run} AND {_KEY} BETWEEN {first} AND {last}"

    def steps_of(self, level: int, sign: str = "") -> str:
        """Return the condition that the wanted buckets of a stream meet, or at level 0 its steps."""
        condition = "t.run = s.run AND t.program = s.program AND t.rank = s.rank"
        if level:
            condition += f" AND t.level = {level}"
        if self.steps is not None:
            first, last = (step // 8**level for step in self.steps)
            number = "t.bucket" if level else "t.step"
            condition += f" AND {sign}{number} >= {first} AND {number} <= {last}"
        return condition

    def all(self, level: int, sign: str = "") -> str:
        """Return the FROM and WHERE parts for all rows of a level, with one index search per rank."""
        table = "step_levels" if level else "steps"
        return (
            f"FROM stream_health AS s CROSS JOIN {table} AS t "
            f"WHERE {self.streams} AND {self.steps_of(level, sign)}"
        )

    def rest(self, level: int) -> str:
        """Return the FROM and WHERE parts for the rows of a level that the level above does not cover yet."""
        above = (
            f"SELECT MAX(a.bucket) FROM step_levels AS a WHERE a.run = s.run AND a.level = {level + 1} "
            "AND a.program = s.program AND a.rank = s.rank"
        )
        number = "t.bucket" if level else "t.step"
        # The sign makes SQLite begin after what the level above holds, and not at the first step.
        return f"{self.all(level, '+')} AND {number} >= 8 * (COALESCE(({above}), -1) + 1)"


def _peaks(level: int, rows: Int64Array) -> Peaks:
    programs, ranks, buckets, *peaks = rows.T
    most, lost = (_eighths(of[:, None]) for of in peaks)
    return Peaks(8 ** (level - 1), programs, ranks, buckets * 8**level, most, lost)


def _eighths(peaks: Int64Array) -> UInt8Array:
    """Return the bytes of the eighths of buckets, u1[n, 8 * buckets], of ``peaks`` i8[n, buckets]."""
    return np.ascontiguousarray(peaks, "<i8").view(np.uint8)
