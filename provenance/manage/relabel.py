"""Gives stored calls the labels that a final model would have given them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, select, update

from chimbuko.arrays import Float64Array
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.tables import CALLS, FUNCTIONS, MODELS, PROGRAMS, RUNS
from chimbuko.provenance.write.rollups import rebuild

AT_ONCE = 10_000
"""Calls judged together."""


@dataclass(frozen=True)
class Verdicts:
    """What is said of some calls; parallel arrays."""

    is_anomaly: npt.NDArray[np.bool_]
    score: Float64Array
    severity_us: Float64Array
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array


Judge = Callable[[str, str, Float64Array, Float64Array], Verdicts | None]
"""Names of program and function, exclusive and inclusive runtimes of its calls in µs, to verdicts; None where
too little is known of the function."""


class Relabelled(msgspec.Struct, frozen=True):
    """What became of the calls of a run."""

    calls: int
    """That were judged again."""
    now_normal: int
    now_abnormal: int
    deleted: int
    """Of those that are normal now."""


def relabel(engine: Engine, run_id: str, judge: Judge, is_deleting: bool) -> Relabelled:
    """Judge all calls of a run again, in one transaction; those that have not ended stay as they are.

    Parameters
    ----------
    is_deleting
        Calls that were abnormal and no longer are are removed.

    Raises
    ------
    StoreError
        The store cannot be read or written; it is as it was.
    """
    calls, now_normal, now_abnormal = 0, 0, 0
    with store_errors(engine), engine.begin() as connection:
        run = connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar_one()
        version = connection.execute(select(func.max(MODELS.c.version)).where(MODELS.c.run == run)).scalar()
        for program, function, number in _functions(connection, run):
            for ids, was_anomaly, runtimes_us in _calls(connection, run, number):
                verdicts = judge(program, function, *runtimes_us)
                if verdicts is None:
                    continue
                calls += len(ids)
                is_acquitted = was_anomaly & ~verdicts.is_anomaly
                now_normal += int(is_acquitted.sum())
                now_abnormal += int((verdicts.is_anomaly & ~was_anomaly).sum())
                _write(connection, ids, verdicts, version or 0)
                if is_deleting and is_acquitted.any():
                    gone = [{"key": key} for key in ids[is_acquitted].tolist()]
                    connection.execute(delete(CALLS).where(CALLS.c.id == bindparam("key")), gone)
        rebuild(connection, run)
    return Relabelled(calls, now_normal, now_abnormal, now_normal if is_deleting else 0)


def _functions(connection: Connection, run: int) -> list[tuple[str, str, int]]:
    """Names of program and function, and the function's number."""
    of_program = and_(PROGRAMS.c.run == FUNCTIONS.c.run, PROGRAMS.c.program == FUNCTIONS.c.program)
    statement = select(PROGRAMS.c.name, FUNCTIONS.c.name, FUNCTIONS.c.number)
    rows = connection.execute(
        statement.join_from(FUNCTIONS, PROGRAMS, of_program).where(FUNCTIONS.c.run == run)
    )
    return [(row[0], row[1], row[2]) for row in rows]


def _calls(
    connection: Connection, run: int, function: int
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], tuple[Float64Array, Float64Array]]]:
    """Keys, labels, and exclusive and inclusive runtimes of a function's calls, some at a time."""
    call = CALLS.c
    statement = (
        select(call.id, call.is_anomaly, call.exclusive_us, call.inclusive_us)
        .where(call.run == run, call.function == function, call.is_open.is_(False))
        .order_by(call.id)
        .limit(AT_ONCE)
    )
    last = 0
    while rows := connection.execute(statement.where(call.id > last)).all():
        ids, labels, exclusive, inclusive = (np.array(column) for column in zip(*rows, strict=True))
        yield ids, labels.astype(np.bool_), (exclusive.astype(np.float64), inclusive.astype(np.float64))
        last = int(ids[-1])


def _write(connection: Connection, ids: npt.NDArray[np.int64], verdicts: Verdicts, version: int) -> None:
    columns: dict[str, npt.NDArray[Any]] = {
        "key": ids,
        "is_anomaly": verdicts.is_anomaly,
        "score": verdicts.score,
        "severity_us": verdicts.severity_us,
        "expected_us": verdicts.expected_us,
        "spread_us": verdicts.spread_us,
        "seen": verdicts.seen.astype(np.int64),
        "model_version": np.full(len(ids), version),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    statement = update(CALLS).where(CALLS.c.id == bindparam("key"))
    named: dict[str, Any] = {name: bindparam(name) for name in columns if name != "key"}
    connection.execute(statement.values(named), [dict(zip(columns, row, strict=True)) for row in rows])
