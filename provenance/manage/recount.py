"""Counts of anomalies by step, rank and function, after calls have got other labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, and_, bindparam, func, select, update

from chimbuko.core.arrays import Float64Array
from chimbuko.provenance.store.tables import CALLS, FUNCTION_STATISTICS, STEPS, STREAM_HEALTH
from chimbuko.provenance.write.stepwriter import rebuild


@dataclass(frozen=True)
class Relabelling:
    """What was said of some calls of one function, and what is now; parallel arrays."""

    function: int
    keys: npt.NDArray[np.int64]
    """Numbers of the calls in the store."""
    ranks: npt.NDArray[np.int64]
    """Program and rank, i8[calls, 2]."""
    steps: npt.NDArray[np.int64]
    was_anomaly: npt.NDArray[np.bool_]
    is_anomaly: npt.NDArray[np.bool_]
    is_relabelled: npt.NDArray[np.bool_]
    """Whether that is another label than while the run went on."""
    old_severity_us: Float64Array
    severity_us: Float64Array
    expected_us: Float64Array

    @property
    def is_acquitted(self) -> npt.NDArray[np.bool_]:
        """Whether they are abnormal no longer."""
        return self.was_anomaly & ~self.is_anomaly


@dataclass
class _Difference:
    anomalies: int = 0
    severity_us: float = 0.0


def recount(connection: Connection, run: int, changes: Sequence[Relabelling]) -> None:
    """Make all counts of a run follow from the new labels, which the calls have already.

    Anomalies that were counted and not recorded stay counted.
    """
    steps: dict[tuple[int, int, int], _Difference] = defaultdict(_Difference)
    ranks: Counter[tuple[int, int]] = Counter()
    functions: dict[int, _Difference] = defaultdict(_Difference)
    for change in changes:
        anomalies = change.is_anomaly.astype(np.int64) - change.was_anomaly
        lost_us = np.where(change.is_anomaly, change.severity_us, 0.0)
        lost_us -= np.where(change.was_anomaly, change.old_severity_us, 0.0)
        for at in np.flatnonzero((anomalies != 0) | (lost_us != 0.0)).tolist():
            program, rank = change.ranks[at].tolist()
            ranks[program, rank] += int(anomalies[at])
            for one in (steps[program, rank, int(change.steps[at])], functions[change.function]):
                one.anomalies += int(anomalies[at])
                one.severity_us += float(lost_us[at])
    _add_to_steps(connection, run, steps)
    _add_to_ranks(connection, run, ranks)
    _add_to_functions(connection, run, functions)


def _add_to_steps(connection: Connection, run: int, steps: dict[tuple[int, int, int], _Difference]) -> None:
    if not steps:
        return
    step, call = STEPS.c, CALLS.c
    highest = (
        select(func.coalesce(func.max(call.score), 0.0))
        .where(
            call.run == run,
            call.program == bindparam("of_program"),
            call.rank == bindparam("of_rank"),
            call.step == bindparam("of_step"),
            call.is_anomaly,
        )
        .scalar_subquery()
    )
    statement = (
        update(STEPS)
        .where(
            step.run == run,
            step.program == bindparam("of_program"),
            step.rank == bindparam("of_rank"),
            step.step == bindparam("of_step"),
        )
        .values(
            anomalies=step.anomalies + bindparam("more"),
            severity_us=step.severity_us + bindparam("more_us"),
            highest_score=highest,
        )
    )
    connection.execute(
        statement,
        [
            {"of_program": p, "of_rank": r, "of_step": s, "more": one.anomalies, "more_us": one.severity_us}
            for (p, r, s), one in steps.items()
        ],
    )
    rebuild(connection, run)


def _add_to_ranks(connection: Connection, run: int, ranks: Counter[tuple[int, int]]) -> None:
    stream = STREAM_HEALTH.c
    of_rank = and_(
        stream.run == run, stream.program == bindparam("of_program"), stream.rank == bindparam("of_rank")
    )
    rows = [{"of_program": p, "of_rank": r, "more": more} for (p, r), more in ranks.items() if more]
    if rows:
        statement = update(STREAM_HEALTH).where(of_rank)
        connection.execute(statement.values(anomalies=stream.anomalies + bindparam("more")), rows)


def _add_to_functions(connection: Connection, run: int, functions: dict[int, _Difference]) -> None:
    columns = FUNCTION_STATISTICS.c
    for function, one in functions.items():
        of_function = and_(columns.run == run, columns.function == function)
        values: dict[str, Any] = {
            "anomalies": columns.anomalies + one.anomalies,
            "severity_us": columns.severity_us + one.severity_us,
        }
        flagged = select(columns.anomalies + one.anomalies).where(of_function)
        by_step = _by_step(connection, run, function)
        # Of one with anomalies that are not recorded nobody knows in which steps these were.
        if connection.execute(flagged).scalar() == by_step.sum():
            values |= {
                "flagged_steps": len(by_step),
                **{
                    f"flagged_{name}": float((by_step**power).sum())
                    for power, name in ((2, "squares"), (3, "cubes"), (4, "fourths"))
                },
                "most_flagged": int(by_step.max(initial=0)),
            }
            if len(by_step):
                values["fewest_flagged"] = int(by_step.min())
        connection.execute(update(FUNCTION_STATISTICS).where(of_function).values(values))


def _by_step(connection: Connection, run: int, function: int) -> Float64Array:
    """Abnormal calls of a function in each step of a rank that has any."""
    call = CALLS.c
    statement = (
        select(func.count())
        .where(call.run == run, call.function == function, call.is_anomaly)
        .group_by(call.program, call.rank, call.step)
    )
    return np.array(connection.scalars(statement).all(), np.float64)
