"""Writes what steps counted, and keeps their coarser levels and histograms current.

A bucket of a rank's coarser level is written when a later one has begun: until then its steps are few
enough to be read as they are. Sums over all ranks are added to as steps come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, literal, select

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount
from chimbuko.provenance.store.coarserlevels import LEVELS, MOST_SHOWN, lost_code_sql
from chimbuko.provenance.store.statements import Accumulate, Upsert, placeholder, rows_of
from chimbuko.provenance.store.tables import (
    ALL_RANKS,
    NEVER_US,
    SPENT,
    STEP_HISTOGRAMS,
    STEP_LEVELS,
    STEPS,
    STREAM_HEALTH,
)

_KEY = ("program", "rank", "step")
_COLUMNS = StepCount.__struct_fields__
_WRITE_STEPS = Upsert.of_all(STEPS)
_ADD_LEVELS = Accumulate(
    STEP_LEVELS,
    highest=("end_us", "highest_score", "most_anomalies", "highest_lost_us"),
    lowest=("start_us",),
)
_ADD_HISTOGRAMS = Accumulate(STEP_HISTOGRAMS, highest=("last_step",))

Bucket = tuple[int, int, int, int]
"""Level, program, rank and number of a bucket."""


class StepChanges(msgspec.Struct, frozen=True):
    """Changes of the table of steps that were written just now."""

    new: Sequence[StepCount]
    are_replaced: bool
    """Whether steps that were stored have changed."""


class StepWriter:
    """Writer of the steps of one run.

    Parameters
    ----------
    run
        The run's number.
    """

    def __init__(self, run: int) -> None:
        self._run = run
        self._newest: dict[RankKey, int] | None = None
        """Newest step of each rank; None before it was read."""

    def write(self, connection: Connection, steps: Iterable[StepCount]) -> StepChanges:
        """Write steps; one that is stored already, and differs, is replaced."""
        reported = {(step.program, step.rank, step.step): step for step in steps}
        if self._newest is None:
            self._newest = _newest_steps(connection, self._run)
        stored = {
            row[:3]: StepCount(*row)
            for row in rows_of(connection, STEPS, _COLUMNS, self._run, _KEY, reported)
        }
        new = [step for key, step in reported.items() if key not in stored]
        _WRITE_STEPS.write(
            connection, [(self._run, *msgspec.structs.astuple(step)) for step in reported.values()]
        )
        _ADD_HISTOGRAMS.write(connection, _histograms(self._run, new))
        completed = _completed(self._newest, new)
        for level in LEVELS:
            buckets = [bucket[1:] for bucket in completed if bucket[0] == level]
            _sum_up(connection, self._run, level, buckets)
        return StepChanges(new, any(step != reported[key] for key, step in stored.items()))

    def add_over_ranks(self, connection: Connection, changes: StepChanges) -> None:
        """Count steps in the sums over all ranks, to which several writers add, in turn."""
        _ADD_LEVELS.write(connection, sorted(_over_all_ranks(self._run, changes.new)))
        if changes.are_replaced:
            # Agents never cause this, as a step that was reported is not analysed again.
            rebuild(connection, self._run)


def _completed(newest: dict[RankKey, int], steps: Iterable[StepCount]) -> set[Bucket]:
    """Return the buckets that can be summed up now, or anew, and take the steps into ``newest``."""
    completed: set[Bucket] = set()
    for step in steps:
        of_rank = (step.program, step.rank)
        last = newest.get(of_rank, step.step)
        earlier, later = sorted((last, step.step))
        completed.update(
            (level, *of_rank, _bucket(level, earlier))
            for level in LEVELS
            if _bucket(level, earlier) < _bucket(level, later)
        )
        newest[of_rank] = later
    return completed


def _newest_steps(connection: Connection, run: int) -> dict[RankKey, int]:
    stream, step = STREAM_HEALTH.c, STEPS.c
    newest = (
        select(func.max(step.step))
        .where(step.run == run, step.program == stream.program, step.rank == stream.rank)
        .scalar_subquery()
    )
    rows = connection.execute(select(stream.program, stream.rank, newest).where(stream.run == run))
    return {(program, rank): last for program, rank, last in rows if last is not None}


def _sum_up(connection: Connection, run: int, level: int, buckets: Sequence[tuple[int, int, int]]) -> None:
    """Sum up the level below in these buckets, (program, rank, number) each."""
    sign = placeholder(connection)
    number = "bucket" if level > 1 else "step"
    changed = ", ".join(f'"{name}" = excluded."{name}"' for name in STEP_LEVELS.columns.keys()[5:])
    statement = (
        f"{_of_level_below(level)} AND run = {sign} AND program = {sign} AND rank = {sign} "
        f"AND {number} >= {sign} AND {number} < {sign} GROUP BY run, program, rank, {number} / 8 "
        f"ON CONFLICT (run, level, program, rank, bucket) DO UPDATE SET {changed}"
    )
    rows = [(run, program, rank, 8 * bucket, 8 * bucket + 8) for program, rank, bucket in sorted(buckets)]
    if rows:
        connection.exec_driver_sql(statement, rows)


def _of_level_below(level: int) -> str:
    """Return a statement that sums up steps, or the level below, of single ranks.

    A condition and groups follow.
    """
    if level > 1:
        table, number, steps, most = "step_levels", "bucket", "SUM(steps)", "most_anomalies"
        lost = "highest_lost_us"
        below = f"level = {level - 1} AND rank <> {ALL_RANKS}"
    else:
        table, number, steps, most = "steps", "step", "COUNT(*)", "anomalies"
        lost = "severity_us"
        # With "rank >= 0" SQLite reads the steps of all ranks from there on.
        below = f"rank <> {ALL_RANKS}"
    shown = f"CASE WHEN {most} < {MOST_SHOWN} THEN {most} ELSE {MOST_SHOWN} END + 1"
    sums = (
        f"{steps}, COALESCE(MIN(NULLIF(start_us, 0)), {NEVER_US}), MAX(end_us), SUM(calls), SUM(anomalies), "
        f"SUM(severity_us), MAX(highest_score), MAX({most}), "
        f"{_side_by_side(shown, number)}, MAX({lost}), "
        + f"{_side_by_side(f'{lost_code_sql(lost)} + 1', number)}, "
        + ", ".join(f"SUM({name})" for name in SPENT)
    )
    return (
        f"INSERT INTO step_levels ({', '.join(STEP_LEVELS.columns.keys())}) "
        f"SELECT run, {level}, program, rank, {number} / 8, {sums} FROM {table} WHERE {below}"
    )


def _side_by_side(byte: str, number: str) -> str:
    # Each eighth occurs once at most, so the sum only puts bytes side by side.
    return f"CAST(SUM(CAST({byte} AS BIGINT) << (8 * ({number} & 7))) AS BIGINT)"


def rebuild(connection: Connection, run: int) -> None:
    """Make coarser levels and histograms of a run anew from its steps."""
    for table in (STEP_LEVELS, STEP_HISTOGRAMS):
        connection.execute(delete(table).where(table.c.run == run))
    step = STEPS.c
    of_run = step.run == run
    for level in (0, *LEVELS):
        bucket = step.step // _literal(8**level)
        over_all = (
            select(step.run, _literal(level), step.program, _literal(ALL_RANKS), bucket, *_SUMS)
            .where(of_run)
            .group_by(step.run, step.program, bucket)
        )
        connection.execute(insert(STEP_LEVELS).from_select(STEP_LEVELS.columns.keys(), over_all))
    last_steps = select(step.program, step.rank, func.max(step.step)).where(of_run)
    newest = connection.execute(last_steps.group_by(step.program, step.rank)).all()
    for level in LEVELS:
        completed = [
            (program, rank, number)
            for program, rank, last in newest
            for number in range(_bucket(level, last))
        ]
        _sum_up(connection, run, level, completed)
    keys = (step.run, step.program, step.rank, step.anomalies)
    histograms = select(*keys, func.count(), func.sum(step.severity_us), func.max(step.step)).where(of_run)
    names = STEP_HISTOGRAMS.columns.keys()
    connection.execute(insert(STEP_HISTOGRAMS).from_select(names, histograms.group_by(*keys)))


_SUMS = (
    func.count(),
    # A step without events, before there were any, has the time 0.
    func.coalesce(func.min(func.nullif(STEPS.c.start_us, 0)), NEVER_US),
    func.max(STEPS.c.end_us),
    func.sum(STEPS.c.calls),
    func.sum(STEPS.c.anomalies),
    func.sum(STEPS.c.severity_us),
    func.max(STEPS.c.highest_score),
    func.max(STEPS.c.anomalies),
    literal(0, literal_execute=True),
    func.max(STEPS.c.severity_us),
    literal(0, literal_execute=True),
    *(func.sum(STEPS.c[name]) for name in SPENT),
)


def _bucket(level: int, step: int) -> int:
    return step >> (3 * level)


def _literal(number: int) -> Any:
    # The number stands in the statement, as PostgreSQL does not see that two parameters are the same.
    return literal(number, literal_execute=True)


_spent = attrgetter(*SPENT)
_NO_TIME = (0,) * len(SPENT)


def _over_all_ranks(run: int, steps: Iterable[StepCount]) -> list[tuple[Any, ...]]:
    sums: dict[tuple[int, int, int], list[float]] = {}
    for step in steps:
        for level in (0, *LEVELS):
            key = (level, step.program, _bucket(level, step.step))
            total = sums.setdefault(key, [0, NEVER_US, 0, 0, 0, 0.0, 0.0, 0, 0, 0.0, 0, *_NO_TIME])
            total[0] += 1
            total[1] = min(total[1], step.start_us or NEVER_US)
            total[2] = max(total[2], step.end_us)
            total[3] += step.calls
            total[4] += step.anomalies
            total[5] += step.severity_us
            total[6] = max(total[6], step.highest_score)
            total[7] = max(total[7], step.anomalies)
            total[9] = max(total[9], step.severity_us)
            for at, us in enumerate(_spent(step), 11):
                total[at] += us
    return [
        (run, level, program, ALL_RANKS, bucket, *total) for (level, program, bucket), total in sums.items()
    ]


def _histograms(run: int, steps: Iterable[StepCount]) -> list[tuple[Any, ...]]:
    cells: dict[tuple[int, int, int], list[float]] = {}
    for step in steps:
        cell = cells.setdefault((step.program, step.rank, step.anomalies), [0, 0.0, 0])
        cell[0] += 1
        cell[1] += step.severity_us
        cell[2] = max(cell[2], step.step)
    return [(run, *key, *cell) for key, cell in cells.items()]
