"""Removes recorded calls by severity and age, and gives their room back; what was counted of them stays.

A rule says which abnormal calls are removed. A normal call is removed when no abnormal one is left that is
compared with it.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from sqlalchemy import BindParameter, Connection, Engine, bindparam, delete, func, select, text, tuple_

from chimbuko.core.arrays import BoolArray, Int64Array
from chimbuko.core.errors import StoreError
from chimbuko.core.units import format_duration_us
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.statements import Accumulate
from chimbuko.provenance.store.tables import CALLS, FUNCTIONS, NODE_STATES, PRUNINGS, RUNS, SCHEMA
from chimbuko.provenance.store.urls import public_url
from chimbuko.provenance.write import rollups

AT_ONCE = 10_000
"""Number of calls removed in one transaction: others wait 0.1 s at most, and a log or journal grows by 4
MB."""

CALL = np.dtype(
    [
        *((name, np.int64) for name in ("id", "rank", "step", "end_us")),
        ("severity_us", np.float64),
        ("is_anomaly", np.bool_),
    ]
)
"""Fields of a call that decide; ``id`` is its row number in the table of calls."""

_COUNT = Accumulate(PRUNINGS, highest=("pruned_us", "rule"))

Calls = npt.NDArray[np.void]
"""Calls of one function, CALL[calls]."""


class PruneRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rule for which abnormal calls are removed: those that meet both conditions and are not kept."""

    below_us: float | None = None
    """Severity below which calls are removed."""
    before_us: int | None = None
    """Time before which calls must have ended to be removed."""
    keep: int = 0
    """Number of calls that stay, the worst of the run."""
    keep_per_function: int = 0
    """Number of calls that stay of each function."""

    def __str__(self) -> str:
        """Return the rule in words."""
        conditions = [
            *([] if self.below_us is None else [f"severity below {format_duration_us(self.below_us)}"]),
            *([] if self.before_us is None else [f"ended before {_date(self.before_us)}"]),
        ]
        kept = [
            *([f"the {self.keep:,} worst"] if self.keep else []),
            *([f"the {self.keep_per_function:,} worst of each function"] if self.keep_per_function else []),
        ]
        return " and ".join(conditions or ["all"]) + (f", but {' and '.join(kept)}" if kept else "")


class PrunedFunction(msgspec.Struct, frozen=True):
    """Numbers of the calls that were removed of a function."""

    program: int
    function: str
    anomalies: int
    severity_us: float
    """Severity of the abnormal calls together."""
    normal_calls: int


def prune(engine: Engine, run_id: str, rule: PruneRule, is_dry_run: bool) -> list[PrunedFunction]:
    """Remove calls of a run that has ended, some at a time; return what was removed, most time lost first.

    What is removed is counted in the same transaction. A pruning that is killed has removed a part of the
    calls, and the sums over recorded calls may still count these; repeated it goes on.

    Parameters
    ----------
    is_dry_run
        Whether to only say what would be removed; the engine may then be one that can only read.

    Raises
    ------
    StoreError
        The store cannot be read or written.
    """
    now_us = time.time_ns() // 1000
    with store_errors(engine):
        with engine.connect() as connection:
            run: int = connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar_one()
            of_run = PRUNINGS.c.run == run
            last = connection.execute(select(func.max(PRUNINGS.c.number)).where(of_run)).scalar()
            worst = _worst(connection, run, rule.keep)
            functions = _functions(connection, run)
        pruned = []
        for number, program, name in functions:
            with engine.connect() as connection:
                calls = _calls(connection, run, number)
            goes = going(calls, rule, worst)
            if not goes.any():
                continue
            is_anomaly = calls["is_anomaly"]
            is_useless = ~is_anomaly & ~compared_with(calls, is_anomaly & ~goes)
            lost_us = float(calls["severity_us"][goes].sum())
            pruned.append(PrunedFunction(program, name, int(goes.sum()), lost_us, int(is_useless.sum())))
            if not is_dry_run:
                key = (run, 0 if last is None else last + 1, number)
                # Normal calls go first: repeated after a crash, the same abnormal ones are found to be
                # removed.
                for gone in (calls[is_useless], calls[goes]):
                    _remove(engine, key, now_us, rule, gone)
        if not is_dry_run:
            _tidy(engine, run)
    return sorted(pruned, key=lambda function: -function.severity_us)


def going(calls: Calls, rule: PruneRule, worst: Int64Array) -> BoolArray:
    """Return which of a function's calls a rule removes.

    ``worst`` are the row numbers of the worst of the run.
    """
    goes: BoolArray = calls["is_anomaly"] & ~np.isin(calls["id"], worst)
    if rule.below_us is not None:
        goes &= calls["severity_us"] < rule.below_us
    if rule.before_us is not None:
        goes &= calls["end_us"] < rule.before_us
    worst_first = np.lexsort((calls["id"], -calls["severity_us"], ~calls["is_anomaly"]))
    goes[worst_first[: rule.keep_per_function]] = False
    return goes


def compared_with(calls: Calls, anomalies: BoolArray) -> BoolArray:
    """Return which normal calls ``Calls.normal_like`` finds for any of some anomalies."""
    found = np.zeros(len(calls), np.bool_)
    # Of calls that are equally near the one of the lower rank is taken, and then the one that was recorded
    # first.
    normal = np.flatnonzero(~calls["is_anomaly"])
    normal = normal[np.lexsort((calls["id"][normal], calls["rank"][normal]))]
    if not len(normal) or not anomalies.any():
        return found
    rank, step = calls["rank"], calls["step"]
    # A step has 31 bits: calls of other ranks are farther away than any of the same rank.
    place = rank << 32 | step
    nearest = _nearest(place[normal], place[anomalies])
    is_elsewhere = rank[normal[nearest]] != rank[anomalies]
    nearest[is_elsewhere] = _nearest(step[normal], step[anomalies][is_elsewhere])
    found[normal[nearest]] = True
    return found


def _nearest(places: Int64Array, wanted: Int64Array) -> Int64Array:
    """Return the index of the place nearest to each wanted one; of several the first."""
    distinct, first = np.unique(places, return_index=True)
    right = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    left = np.maximum(right - 1, 0)
    to_left, to_right = np.abs(distinct[left] - wanted), np.abs(distinct[right] - wanted)
    is_left = (to_left < to_right) | ((to_left == to_right) & (first[left] < first[right]))
    index: Int64Array = np.where(is_left, first[left], first[right])
    return index


def _worst(connection: Connection, run: int, count: int) -> Int64Array:
    call = CALLS.c
    statement = select(call.id).where(call.run == run, call.is_anomaly)
    rows = connection.execute(statement.order_by(call.severity_us.desc(), call.id).limit(count))
    return np.array(rows.scalars().all(), np.int64)


def _functions(connection: Connection, run: int) -> list[tuple[int, int, str]]:
    columns = FUNCTIONS.c
    statement = select(columns.number, columns.program, columns.name).where(columns.run == run)
    return [(row[0], row[1], row[2]) for row in connection.execute(statement.order_by(columns.number))]


def _calls(connection: Connection, run: int, function: int) -> Calls:
    call = CALLS.c
    end_us = call.entry_us + call.inclusive_us
    statement = (
        select(call.id, call.rank, call.step, end_us, call.severity_us, call.is_anomaly)
        .where(call.run == run, call.function == function)
        .order_by(call.id)
        .execution_options(yield_per=AT_ONCE)
    )
    parts = connection.execute(statement).partitions()
    pieces = (np.array([tuple(row) for row in rows], CALL) for rows in parts)
    return np.concatenate([np.empty(0, CALL), *pieces])


def _remove(engine: Engine, key: tuple[int, int, int], now_us: int, rule: PruneRule, calls: Calls) -> None:
    """Remove calls of one function, and count them under run, pruning and function."""
    for first in range(0, len(calls), AT_ONCE):
        some = calls[first : first + AT_ONCE]
        # The numbers stand in the statement, as they are more than a database takes parameters.
        ids: BindParameter[int] = bindparam("ids", some["id"].tolist(), expanding=True, literal_execute=True)
        abnormal = some[some["is_anomaly"]]
        counts = len(abnormal), len(some) - len(abnormal), float(abnormal["severity_us"].sum())
        with engine.begin() as connection:
            connection.execute(delete(CALLS).where(CALLS.c.id.in_(ids)))
            _COUNT.write(connection, [(*key, now_us, str(rule), *counts)])


def _tidy(engine: Engine, run: int) -> None:
    """Sum up the calls that are left, and remove states of nodes in steps without recorded calls."""
    call, state = CALLS.c, NODE_STATES.c
    recorded = select(call.program, call.rank, call.step).where(call.run == run)
    # By a difference of two lists, as there is no index by which to look for the calls of one step.
    unused = select(state.program, state.rank, state.step).where(state.run == run).except_(recorded)
    of_unused = tuple_(state.program, state.rank, state.step).in_(unused)
    with engine.begin() as connection:
        connection.execute(delete(NODE_STATES).where(state.run == run, of_unused))
        rollups.rebuild(connection, run)


def _date(time_us: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_us / 1e6))


ROOM = 2.0
"""Room that SQLite needs for a vacuum, as a multiple of the database: a copy, and a log of the copying
back."""


class Vacuumed(msgspec.Struct, frozen=True):
    """Size of the tables of a store before and after a vacuum, with all runs in it."""

    store: str
    bytes_before: int
    bytes_after: int


def vacuum(engine: Engine) -> Vacuumed:
    """Vacuum the tables of a store that was opened for writing.

    Raises
    ------
    StoreError
        Others use the store, or there is not enough room on its disk; it is as it was.
    """
    work = _vacuum_sqlite if engine.dialect.name == "sqlite" else _vacuum_postgresql
    with store_errors(engine):
        before, after = work(engine)
    return Vacuumed(public_url(engine.url), before, after)


def _vacuum_sqlite(engine: Engine) -> tuple[int, int]:
    path = Path(engine.url.database or "").absolute()
    before = path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < ROOM * before:
        raise StoreError(
            f"{path}: a vacuum takes {ROOM * before / 1e6:.1f} MB on its disk, where {free / 1e6:.1f} MB are "
            "free; make room there"
        )
    # The copy goes where the room was found, and not onto a small /tmp or into memory.
    os.environ["SQLITE_TMPDIR"] = str(path.parent)
    with engine.connect() as connection:
        # Our engine begins transactions by itself, and a vacuum cannot be in one.
        for statement in ("COMMIT", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            connection.exec_driver_sql(statement)
    return before, path.stat().st_size


def _vacuum_postgresql(engine: Engine) -> tuple[int, int]:
    names = list(SCHEMA.tables)
    size = text(
        "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(CAST(:names AS text[])) AS name"
    )
    with engine.connect() as any_connection:
        connection = any_connection.execution_options(isolation_level="AUTOCOMMIT")
        before = connection.execute(size, {"names": names}).scalar_one()
        connection.exec_driver_sql(f"VACUUM (ANALYZE) {', '.join(names)}")
        return int(before), int(connection.execute(size, {"names": names}).scalar_one())
