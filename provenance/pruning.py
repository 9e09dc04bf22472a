"""Removes recorded calls of a run by severity and age; what was counted of them stays.

Abnormal calls go by a rule. A normal call goes when no abnormal one is left that is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Engine, and_, bindparam, delete, exists, select

from chimbuko.provenance.store import store_errors
from chimbuko.provenance.tables import CALLS, FUNCTIONS, NODE_STATES, RUNS

AT_ONCE = 10_000
"""Calls removed in one transaction: others wait 0.1 s at most, and a log or journal grows by 4 MB."""

CALL = np.dtype(
    [
        *((name, np.int64) for name in ("id", "rank", "step", "end_us")),
        ("severity_us", np.float64),
        ("is_anomaly", np.bool_),
    ]
)
"""What is looked at of a call; ``id`` is its row number in the table of calls."""

Calls = npt.NDArray[np.void]
"""CALL[calls] of one function."""
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class PruneRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which abnormal calls go: those that fulfil both conditions, but for the ones that are kept."""

    below_us: float | None = None
    """Those of less severity."""
    before_us: int | None = None
    """Those that ended before this time."""
    keep: int = 0
    """So many stay, the worst of the run,"""
    keep_per_function: int = 0
    """and so many of each function."""


class PrunedFunction(msgspec.Struct, frozen=True):
    """What was removed of a function."""

    program: int
    function: str
    anomalies: int
    severity_us: float
    """Of the abnormal calls together."""
    normal_calls: int


def prune(engine: Engine, run_id: str, rule: PruneRule, is_dry_run: bool) -> list[PrunedFunction]:
    """Remove calls of a run that has ended, some at a time; what was removed, the most time lost first.

    Killed in the middle it has removed a part of them, with the counts of these; repeated it goes on.

    Parameters
    ----------
    is_dry_run
        Only say what would be removed; the engine may be one that can only read.

    Raises
    ------
    StoreError
        The store cannot be read or written.
    """
    with store_errors(engine):
        with engine.connect() as connection:
            run: int = connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar_one()
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
                # Normal ones first: repeated after a crash, the same abnormal ones are found to go.
                for ids in (calls["id"][is_useless], calls["id"][goes]):
                    _remove(engine, run, ids)
        if not is_dry_run:
            _tidy(engine, run)
    return sorted(pruned, key=lambda function: -function.severity_us)


def going(calls: Calls, rule: PruneRule, worst: Int64Array) -> BoolArray:
    """Which of a function's calls a rule removes; ``worst`` are the row numbers of the worst of the run."""
    goes: BoolArray = calls["is_anomaly"] & ~np.isin(calls["id"], worst)
    if rule.below_us is not None:
        goes &= calls["severity_us"] < rule.below_us
    if rule.before_us is not None:
        goes &= calls["end_us"] < rule.before_us
    worst_first = np.lexsort((calls["id"], -calls["severity_us"], ~calls["is_anomaly"]))
    goes[worst_first[: rule.keep_per_function]] = False
    return goes


def compared_with(calls: Calls, anomalies: BoolArray) -> BoolArray:
    """Which normal calls are the one that ``Provenance.normal_like`` finds for one of some anomalies."""
    found = np.zeros(len(calls), np.bool_)
    # Of those that are equally near the lower rank is taken, and then what was recorded first.
    normal = np.flatnonzero(~calls["is_anomaly"])
    normal = normal[np.lexsort((calls["id"][normal], calls["rank"][normal]))]
    if not len(normal) or not anomalies.any():
        return found
    rank, step = calls["rank"], calls["step"]
    # A step has 31 bits: calls of other ranks are farther than any of the same.
    place = rank << 32 | step
    nearest = _nearest(place[normal], place[anomalies])
    is_elsewhere = rank[normal[nearest]] != rank[anomalies]
    nearest[is_elsewhere] = _nearest(step[normal], step[anomalies][is_elsewhere])
    found[normal[nearest]] = True
    return found


def _nearest(places: Int64Array, wanted: Int64Array) -> Int64Array:
    """Index of the place nearest to each wanted one; of several the first."""
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


def _remove(engine: Engine, run: int, ids: Int64Array) -> None:
    for some in _pieces(ids):
        # Written into the statement: there are more than a database takes parameters.
        these = CALLS.c.id.in_(bindparam("ids", some, expanding=True, literal_execute=True))
        with engine.begin() as connection:
            connection.execute(delete(CALLS).where(CALLS.c.run == run, these))


def _pieces(ids: Int64Array) -> Iterator[list[int]]:
    for first in range(0, len(ids), AT_ONCE):
        yield ids[first : first + AT_ONCE].tolist()


def _tidy(engine: Engine, run: int) -> None:
    """Remove states of nodes in steps that no call is recorded of any more."""
    call, state = CALLS.c, NODE_STATES.c
    of_step = and_(
        call.run == state.run, call.program == state.program, call.rank == state.rank, call.step == state.step
    )
    with engine.begin() as connection:
        connection.execute(delete(NODE_STATES).where(state.run == run, ~exists().where(of_step)))
