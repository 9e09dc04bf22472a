"""Stored calls of a run, judged again by a final model, by default the one that the run ended with."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, select, update

from chimbuko.ad.detectors import Verdicts
from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.causes.incident import Incident, incident_id
from chimbuko.causes.incidents.tracker import Changes
from chimbuko.core.arrays import BoolArray, Float64Array
from chimbuko.core.calls.record import CLEARLY, FIRST_STRETCH_ROW, call_id
from chimbuko.core.config import FEW_CALLS
from chimbuko.core.statistics.model import load_model
from chimbuko.provenance.explain.explaining import (
    Say,
    explain_run,
    flood_line,
    is_explained_at_end,
)
from chimbuko.provenance.query.run import shortest_of_slowest
from chimbuko.provenance.store.engine import close, open_for_writing, store_errors
from chimbuko.provenance.store.statements import Change
from chimbuko.provenance.store.tables import (
    CALLS,
    FUNCTION_STATISTICS,
    FUNCTIONS,
    INCIDENTS,
    MODELS,
    PROGRAMS,
    RUNS,
    STEPS,
    STREAM_HEALTH,
)
from chimbuko.provenance.write.kept import Kept
from chimbuko.provenance.write.rollups import rebuild as rebuild_sums
from chimbuko.provenance.write.stepwriter import rebuild as rebuild_steps
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.runs.directory import RunDirectory

AT_ONCE = 10_000
"""Number of calls that are fetched, judged and written together."""


Judge = Callable[[str, str, Float64Array, Float64Array, Float64Array], Verdicts | None]
"""Function that judges calls, given the names of program and function, the exclusive and inclusive runtimes
of the calls, and what was expected of each when it was recorded, in µs; it returns None where too little is
known of the function."""


class Relabelled(msgspec.Struct, frozen=True):
    """Numbers of the calls of a run that got other labels."""

    calls: int
    """Calls that were judged again."""
    now_normal: int
    now_abnormal: int
    deleted: int
    """Calls that are normal now and were deleted."""


class Relabelling(msgspec.Struct, frozen=True):
    """Old and new labels of some calls of one function, as parallel arrays."""

    function: int
    keys: npt.NDArray[np.int64]
    """Row numbers of the calls in the store."""
    ranks: npt.NDArray[np.int64]
    """Program and rank, i8[calls, 2]."""
    steps: npt.NDArray[np.int64]
    was_anomaly: BoolArray
    is_relabelled: BoolArray
    """Whether the new label is another than while the run went on."""
    old_severity_us: Float64Array
    verdicts: Verdicts

    @property
    def is_anomaly(self) -> BoolArray:
        """Whether each call is abnormal now."""
        return self.verdicts.is_anomaly

    @property
    def is_acquitted(self) -> BoolArray:
        """Whether each call was abnormal and no longer is."""
        return self.was_anomaly & ~self.is_anomaly


def relabel(
    engine: Engine,
    run_id: str,
    judge: Judge,
    is_deleting: bool,
    incidents: Mapping[int, Incident] | None = None,
) -> Relabelled:
    """Judge all calls of a run again, in one transaction; calls that have not ended stay as they are.

    An incident whose origin was flagged stays whole if the origin is abnormal by the model, or held up others
    whose calls were flagged: how often ranks wait for delays says nothing of whether delays are ordinary.
    Those of its calls that the model takes for ordinary score as much as the threshold. So do calls flagged
    on a call path on which they are clearly shorter than on another one: the model knows no paths. All counts
    follow from the new labels. A call that is normal now belongs to no incident, unless it is found to have
    waited for one (``explain``).

    Parameters
    ----------
    is_deleting
        Whether calls that were abnormal and no longer are get removed.
    incidents
        Incidents of the run by number; None for those in the store.

    Raises
    ------
    StoreError
        The store cannot be read or written; it is as it was.
    """
    with store_errors(engine), engine.begin() as connection:
        run = connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar_one()
        version = connection.execute(select(func.max(MODELS.c.version)).where(MODELS.c.run == run)).scalar()
        judged = list(_judged(connection, run, judge))
        acquitted = {name for some in judged for name in some.names[~some.verdicts.is_anomaly].tolist()}
        unflagged = {name for some in judged for name in some.names[~some.was_anomaly].tolist()}
        origins = _origins(connection, run) if incidents is None else map(_origin, incidents.values())
        # What flight recorders added is there in a live run only, so it must not decide a label.
        upheld = {
            incident_id(number)
            for number, call, flags in origins
            if call and call not in unflagged and (flags > 1 or call not in acquitted)
        }
        shortest_us = {row[0]: row[1] for row in connection.execute(shortest_of_slowest(run))}
        changes: list[Relabelling] = []
        for some in judged:
            slower_us = shortest_us.get(some.function, 0.0)
            is_of_faster_path = (some.expected_us > 0.0) & (some.expected_us * CLEARLY <= slower_us)
            stays = some.was_anomaly & (
                np.array([one in upheld for one in some.incidents]) | is_of_faster_path
            )
            changes.append(some.changed(some.verdicts.upheld(stays)))
        _write(connection, changes, version or 0)
        _recount(connection, run, changes)
        now_normal = [key for change in changes for key in change.keys[change.is_acquitted].tolist()]
        if is_deleting and now_normal:
            gone = [{"key": key} for key in now_normal]
            connection.execute(delete(CALLS).where(CALLS.c.id == bindparam("key")), gone)
        rebuild_sums(connection, run)
    return Relabelled(
        sum(len(change.keys) for change in changes),
        len(now_normal),
        sum(int((change.is_anomaly & ~change.was_anomaly).sum()) for change in changes),
        len(now_normal) if is_deleting else 0,
    )


class _Judged(msgspec.Struct, frozen=True):
    """Calls of one function with their verdicts, as parallel arrays."""

    function: int
    keys: npt.NDArray[np.int64]
    names: npt.NDArray[np.str_]
    """Ids of the calls."""
    ranks: npt.NDArray[np.int64]
    """Program and rank, i8[calls, 2]."""
    steps: npt.NDArray[np.int64]
    was_anomaly: BoolArray
    is_relabelled: BoolArray
    severity_us: Float64Array
    expected_us: Float64Array
    """Runtime that was expected when each was recorded, in µs; 0 where that is not known."""
    incidents: list[str]
    """Incident of each; empty for none."""
    verdicts: Verdicts

    def changed(self, verdicts: Verdicts) -> Relabelling:
        """Return the calls with new labels."""
        return Relabelling(
            function=self.function,
            keys=self.keys,
            ranks=self.ranks,
            steps=self.steps,
            was_anomaly=self.was_anomaly,
            is_relabelled=self.is_relabelled ^ (self.was_anomaly ^ verdicts.is_anomaly),
            old_severity_us=self.severity_us,
            verdicts=verdicts,
        )


def _judged(connection: Connection, run: int, judge: Judge) -> Iterator[_Judged]:
    named = _functions(connection, run)
    for number, rows in _calls(connection, run):
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        (keys, programs, ranks, begin_steps, begin_rows, steps) = columns[:6]
        was_anomaly, is_relabelled = (column.astype(np.bool_) for column in columns[6:8])
        severity, expected, exclusive, inclusive, seen = (
            column.astype(np.float64) for column in columns[8:13]
        )
        # Of calls that were the first to be known the call itself was most of what was expected.
        recorded = np.where(seen < FEW_CALLS, 0.0, expected)
        verdicts = judge(*named[number], exclusive, inclusive, recorded)
        if verdicts is None:
            continue
        places = zip(
            programs.tolist(), ranks.tolist(), begin_steps.tolist(), begin_rows.tolist(), strict=True
        )
        yield _Judged(
            function=number,
            keys=keys,
            names=np.array([call_id(*place) for place in places]),
            ranks=np.stack([programs, ranks], axis=1),
            steps=steps,
            was_anomaly=was_anomaly,
            is_relabelled=is_relabelled,
            severity_us=severity,
            expected_us=recorded,
            incidents=[row.incident_id or "" for row in rows],
            verdicts=verdicts,
        )


def _functions(connection: Connection, run: int) -> dict[int, tuple[str, str]]:
    """Return names of program and function by the function's number."""
    of_program = and_(PROGRAMS.c.run == FUNCTIONS.c.run, PROGRAMS.c.program == FUNCTIONS.c.program)
    statement = select(PROGRAMS.c.name, FUNCTIONS.c.name, FUNCTIONS.c.number)
    rows = connection.execute(
        statement.join_from(FUNCTIONS, PROGRAMS, of_program).where(FUNCTIONS.c.run == run)
    )
    return {row[2]: (row[0], row[1]) for row in rows}


def _calls(connection: Connection, run: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield number and calls of each function, as rows, some at a time; stretches of long calls are judged by
    others at their place, of which the model knows nothing.
    """
    call = CALLS.c
    names = (
        *("id", "program", "rank", "begin_step", "begin_row", "step", "is_anomaly", "is_relabelled"),
        *("severity_us", "expected_us", "exclusive_us", "inclusive_us", "seen", "incident_id", "function"),
    )
    statement = (
        select(*(call[name] for name in names))
        .where(call.run == run, call.is_open.is_(False), call.begin_row > FIRST_STRETCH_ROW)
        .order_by(call.function, call.id)
    )
    rows = connection.execute(statement, execution_options={"yield_per": AT_ONCE})
    for number, of_function in itertools.groupby(rows, key=attrgetter("function")):
        while some := list(itertools.islice(of_function, AT_ONCE)):
            yield number, some


def _origins(connection: Connection, run: int) -> Iterable[tuple[int, str, int]]:
    """Return number, call that it began with, and number of flagged calls of each stored incident."""
    columns = INCIDENTS.c
    statement = select(columns.number, columns.call, columns.flags).where(
        columns.run == run, columns.merged_into == 0, columns.is_gone.is_(False)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(statement)]


def _origin(incident: Incident) -> tuple[int, str, int]:
    """Return the same of an incident."""
    return incident.number, incident.call_id, incident.flags


def _write(connection: Connection, changes: Sequence[Relabelling], version: int) -> None:
    rows = itertools.chain.from_iterable(_rows(change, version) for change in changes)
    while some := list(itertools.islice(rows, AT_ONCE)):
        _JUDGE.write(connection, some)
    gone = [(None, key) for change in changes for key in change.keys[change.is_acquitted].tolist()]
    _RELEASE.write(connection, gone)


_JUDGE = Change(
    CALLS,
    (
        *("is_anomaly", "is_relabelled", "score", "severity_us"),
        *("expected_us", "spread_us", "seen", "model_version"),
    ),
    ("id",),
)
_RELEASE = Change(CALLS, ("incident_id",), ("id",))


def _rows(change: Relabelling, version: int) -> Iterator[tuple[Any, ...]]:
    """Yield what the store gets of each call, as ``_JUDGE`` takes it."""
    said = change.verdicts
    columns = (
        *(said.is_anomaly, change.is_relabelled, said.score, said.lost_us),
        *(said.expected_us, said.spread_us, said.seen.astype(np.int64)),
    )
    return zip(
        *(column.tolist() for column in columns),
        itertools.repeat(version),
        change.keys.tolist(),
        strict=False,
    )


class _Difference(msgspec.Struct):
    anomalies: int = 0
    severity_us: float = 0.0


def _recount(connection: Connection, run: int, changes: Sequence[Relabelling]) -> None:
    """Change all counts of a run by the new labels, which the calls have already.

    Anomalies that were counted and not recorded stay counted.
    """
    steps: dict[tuple[int, int, int], _Difference] = defaultdict(_Difference)
    ranks: Counter[tuple[int, int]] = Counter()
    functions: dict[int, _Difference] = defaultdict(_Difference)
    for change in changes:
        anomalies = change.is_anomaly.astype(np.int64) - change.was_anomaly
        lost_us = np.where(change.is_anomaly, change.verdicts.lost_us, 0.0)
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
    # Of all steps at once: asked for one, SQLite looks at all calls of the rank.
    of_step = call.program, call.rank, call.step
    flagged = select(*of_step, func.max(call.score)).where(call.run == run, call.is_anomaly)
    highest = {tuple(key): score for *key, score in connection.execute(flagged.group_by(*of_step))}
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
            highest_score=bindparam("highest"),
        )
    )
    connection.execute(
        statement,
        [
            {
                **{"of_program": p, "of_rank": r, "of_step": s, "highest": highest.get((p, r, s), 0.0)},
                **{"more": one.anomalies, "more_us": one.severity_us},
            }
            for (p, r, s), one in steps.items()
        ],
    )
    rebuild_steps(connection, run)


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
    counted = dict(
        connection.execute(select(columns.function, columns.anomalies).where(columns.run == run)).all()
    )
    by_step = _flagged_by_step(connection, run)
    with_steps, without = list[dict[str, Any]](), list[dict[str, Any]]()
    for function, one in functions.items():
        row = {"of": function, "more": one.anomalies, "more_us": one.severity_us}
        of_steps = by_step.get(function, [])
        # Where anomalies are not recorded, their steps are not known.
        if counted.get(function) == sum(of_steps) - one.anomalies:
            with_steps.append(row | _spread_over_steps(np.array(of_steps, np.float64)))
        else:
            without.append(row)
    more = update(FUNCTION_STATISTICS).where(columns.run == run, columns.function == bindparam("of"))
    more = more.values(
        anomalies=columns.anomalies + bindparam("more"),
        severity_us=columns.severity_us + bindparam("more_us"),
    )
    if without:
        connection.execute(more, without)
    if with_steps:
        names = ("flagged_steps", "flagged_squares", "flagged_cubes", "flagged_fourths", "most_flagged")
        spread: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
        spread["fewest_flagged"] = func.coalesce(bindparam("new_fewest_flagged"), columns.fewest_flagged)
        connection.execute(more.values(spread), with_steps)


def _spread_over_steps(flagged: Float64Array) -> dict[str, Any]:
    """Return how abnormal calls of a function spread over steps, by their number in each step of a rank that
    has any.
    """
    return {
        "new_flagged_steps": len(flagged),
        **{
            f"new_flagged_{name}": float((flagged**power).sum())
            for power, name in ((2, "squares"), (3, "cubes"), (4, "fourths"))
        },
        "new_most_flagged": int(flagged.max(initial=0)),
        "new_fewest_flagged": int(flagged.min()) if len(flagged) else None,
    }


def _flagged_by_step(connection: Connection, run: int) -> dict[int, list[int]]:
    """Return the number of abnormal calls of each function in each step of a rank that has any."""
    call = CALLS.c
    statement = (
        select(call.function, func.count())
        .where(call.run == run, call.is_anomaly)
        .group_by(call.function, call.program, call.rank, call.step)
    )
    by_function = defaultdict[int, list[int]](list)
    for function, calls in connection.execute(statement):
        by_function[function].append(calls)
    return by_function


# Final judgement: a run's recorded calls are judged again by the model that the run ended with.


def relabel_run(
    run: RunDirectory,
    is_deleting: bool,
    is_hasty: Callable[[], bool] = lambda: False,
    say: Say = log,
    kept: Kept | None = None,
) -> Relabelled:
    """Judge all calls in the store of a run by its final model, and find its incidents anew.

    Parameters
    ----------
    is_hasty, say
        As for ``explain_run``.
    kept
        What is kept of a run whose calls are explained as they are; None if they are not.

    Raises
    ------
    ChimbukoError
        The run has no model, or its store cannot be written.
    """
    info = run.read_info()
    judge = FinalJudge(load_model(run.model_path, info.config), info.config)

    # Waits are judged by what they waited for, so that has to be known.
    if kept is None:
        explain_run(run, is_hasty)
    engine = open_for_writing(run.used_store_url(info))
    try:
        incidents = None if kept is None else kept.incidents
        relabelled = relabel(engine, info.id, judge.judge, is_deleting, incidents)
    finally:
        close(engine)
    # What the trace knew is in the store now.
    explain_run(run, lambda: True, say, kept)
    return relabelled


def judge_at_end(
    run: RunDirectory,
    is_hasty: Callable[[], bool],
    say: Say,
    is_relabelling: bool = True,
    kept: Kept | None = None,
) -> str:
    """Judge and explain the calls of a run that has just ended once more; return a line for the user, if any.

    Where very many calls are abnormal, they stay as they are.

    Parameters
    ----------
    is_hasty, say, kept
        As for ``relabel_run``.
    is_relabelling
        Whether they are judged again, and not only explained.

    Raises
    ------
    ChimbukoError
        The store cannot be read or written.
    """
    is_explained = is_explained_at_end(run)
    if kept is not None:
        _store_incidents(run, kept.left(), is_explained)
    if not is_explained:
        return flood_line(run)
    if not is_relabelling or not run.model_path.exists():
        explain_run(run, is_hasty, say, kept)
        return ""
    relabelled = relabel_run(run, False, is_hasty, say, kept)
    return relabelled_line(relabelled) if relabelled.now_normal or relabelled.now_abnormal else ""


def _store_incidents(run: RunDirectory, left: Changes, are_told_again: bool) -> None:
    """Store which incidents calls belong to, and the incidents themselves unless they are told again."""
    info = run.read_info()
    engine = open_for_writing(run.used_store_url(info))
    try:
        Writer(engine, info.id).write_incidents(replace(left, incidents=[]) if are_told_again else left)
    finally:
        close(engine)


def relabelled_line(relabelled: Relabelled) -> str:
    """Return the line for people about calls that were judged again."""
    changed = relabelled.now_normal + relabelled.now_abnormal
    deleted = f" ({relabelled.deleted:,} deleted)" if relabelled.deleted else ""
    return (
        f"Judged again by the final model: {changed:,} of {relabelled.calls:,} recorded calls changed; "
        f"{relabelled.now_normal:,} {'is' if relabelled.now_normal == 1 else 'are'} normal now{deleted}, "
        f"{relabelled.now_abnormal:,} abnormal"
    )
