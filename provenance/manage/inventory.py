"""Inventory of a store: which runs it holds, and how much of each."""

from __future__ import annotations

import time

import msgspec
from sqlalchemy import Connection, Engine, and_, func, inspect, literal, literal_column, select

from chimbuko.capture.trace.discovery import Transport
from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.causes.wording import BOUNDS, Bound, least_sure
from chimbuko.provenance.manage.lifecycle import RUNNING
from chimbuko.provenance.manage.transfer import TABLES_OF_RUNS
from chimbuko.provenance.store.coarserlevels import LEVELS
from chimbuko.provenance.store.engine import open_for_reading, store_errors
from chimbuko.provenance.store.tables import (
    ALL_RANKS,
    INCIDENTS,
    NEVER_US,
    RECURRENCES,
    RUNS,
    STEP_LEVELS,
    STREAM_HEALTH,
)
from chimbuko.runtime.runs.directory import RunInfo


class RunTotals(msgspec.Struct, frozen=True):
    """Totals of a run."""

    ranks: int = 0
    anomalies: int = 0
    """Number of anomalies, also of those that are not recorded, or no longer."""
    steps: int = 0
    gap_steps: int = 0
    """Number of steps that were not analysed."""
    lost_us: float | None = 0.0
    """Core time that incidents and recurring findings cost; None if there are anomalies without
    incidents."""
    bound: Bound = Bound.EXACT
    """How sure that time is."""
    length_us: int = 0
    """Time from the begin of the first step to the end of the last one."""

    @property
    def loss(self) -> float | None:
        """Share of steps that were not analysed; None if none is known."""
        known = self.steps + self.gap_steps
        return self.gap_steps / known if known else None


def duration_us(info: RunInfo, state: str, totals: RunTotals | None) -> int | None:
    """Return the duration of a run, up to now while it goes on; None if it is not known.

    A run of recorded traces lasted as long as the program did, however fast they were read.
    """
    if info.transport == Transport.RECORDED or state == "imported":
        return totals.length_us if totals and totals.length_us else None
    ended_us = info.ended_us or (time.time_ns() // 1000 if state == RUNNING else None)
    return None if ended_us is None else max(0, ended_us - info.started_us)


def totals_of_runs(engine: Engine) -> dict[str, RunTotals]:
    """Return the totals of each run that has analysed anything, by the run's id.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    stream = STREAM_HEALTH.c
    statement = (
        select(
            RUNS.c.id,
            func.count(),
            func.sum(stream.anomalies),
            func.sum(stream.steps),
            func.sum(stream.gap_steps),
        )
        .join_from(STREAM_HEALTH, RUNS, RUNS.c.number == stream.run)
        .group_by(RUNS.c.id)
    )
    with store_errors(engine), engine.connect() as connection:
        rows = connection.execute(statement).all()
        lost, lengths = _lost(connection), _lengths_us(connection)
    return {
        run_id: RunTotals(
            *(int(ranks), int(anomalies), int(steps), int(gaps)),
            *lost.get(run_id, (None if anomalies else 0.0, Bound.EXACT)),
            lengths.get(run_id, 0),
        )
        for run_id, ranks, anomalies, steps, gaps in rows
    }


def _lost(connection: Connection) -> dict[str, tuple[float, Bound]]:
    """Return the core time that each run lost, and how sure that is.

    Short delays count by themselves, and not once more as interruptions.
    """
    found: dict[str, tuple[float, Bound]] = {}
    kept = {column["name"] for column in inspect(connection).get_columns(INCIDENTS.name)}
    exact = literal(BOUNDS.index(Bound.EXACT))
    for table, bound, counts in (
        # Stores of the first release say of no cost how sure it is.
        (
            INCIDENTS,
            INCIDENTS.c.bound if "bound" in kept else exact,
            and_(INCIDENTS.c.merged_into == 0, INCIDENTS.c.is_gone.is_(False)),
        ),
        (RECURRENCES, exact, RECURRENCES.c.kind != RecurrenceKind.INTERRUPTIONS),
    ):
        sums = (
            select(RUNS.c.id, func.sum(table.c.cost_us), func.max(bound))
            .join_from(table, RUNS, RUNS.c.number == table.c.run)
            .where(counts)
            .group_by(RUNS.c.id)
        )
        for run_id, cost_us, at in connection.execute(sums):
            before_us, before = found.get(run_id, (0.0, Bound.EXACT))
            found[run_id] = before_us + float(cost_us), least_sure((before, BOUNDS[at]))
    return found


def _lengths_us(connection: Connection) -> dict[str, int]:
    step = STEP_LEVELS.c
    wanted = step.level == LEVELS[-1], step.rank == ALL_RANKS, step.start_us < NEVER_US
    lengths = (
        select(RUNS.c.id, func.max(step.end_us) - func.min(step.start_us))
        .join_from(STEP_LEVELS, RUNS, RUNS.c.number == step.run)
        .where(*wanted)
        .group_by(RUNS.c.id)
    )
    return {run_id: int(length_us) for run_id, length_us in connection.execute(lengths)}


def stored_runs(engine: Engine) -> list[RunInfo]:
    """Return all runs of a store.

    Parameters
    ----------
    engine
        Store from ``open_for_reading``: earlier versions kept less of a run.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    names = RunInfo.__struct_fields__
    statement = select(*(RUNS.c[name] for name in names)).order_by(RUNS.c.number)
    with store_errors(engine), engine.connect() as connection:
        rows = connection.execute(statement).all()
    return [msgspec.convert(dict(zip(names, row, strict=True)), RunInfo) for row in rows]


def bytes_elsewhere(url: str, run_id: str) -> int:
    """Return the size of a run's rows in a database elsewhere, in bytes, without indexes, which runs share.

    Parameters
    ----------
    url
        URL of the store; for SQLite, whose file is in the run's folder, the answer is 0.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    engine = open_for_reading(url)
    try:
        if engine.dialect.name == "sqlite":
            return 0
        number = select(RUNS.c.number).where(RUNS.c.id == run_id).scalar_subquery()
        with store_errors(engine), engine.connect() as connection:
            return sum(
                connection.execute(
                    select(func.coalesce(func.sum(func.pg_column_size(literal_column(f"{table.name}.*"))), 0))
                    .select_from(table)
                    .where(table.c.run == number)
                ).scalar_one()
                for table in TABLES_OF_RUNS
            )
    finally:
        engine.dispose()
