"""Calls are removed by rule, those that others are compared with stay, and so does what was counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.manage import pruning
from chimbuko.provenance.manage.pruning import CALL, Calls, PruneRule, compared_with, going, prune
from chimbuko.provenance.manage.transfer import copy_run
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import NODE_STATES, RANK_TOTALS, RUNS
from chimbuko.provenance.write.writer import Writer
from tests.provenance.whole_runs import ALL, answers, make_whole_run
from tests.sample_records import make_batch, make_record
from tests.sample_records import make_run as make_info
from tests.viz.made_run import MadeRun

SMALL = 7
"""So few calls in a transaction that there are many."""

NUMBER = st.integers(0, 5)
CALLS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, st.booleans()), max_size=20)


def made_calls(rows: list[tuple[int, int, int, int, bool]]) -> Calls:
    return np.array([(number, *row) for number, row in enumerate(rows)], CALL)


@given(
    CALLS,
    st.none() | NUMBER,
    st.none() | NUMBER,
    st.integers(0, 3),
    st.sets(st.integers(0, 19)),
)
def test_what_goes_fulfils_the_conditions_and_is_none_of_the_worst(
    rows: list[tuple[int, int, int, int, bool]],
    below_us: int | None,
    before_us: int | None,
    per_function: int,
    worst: set[int],
) -> None:
    calls = made_calls(rows)
    goes = going(calls, PruneRule(below_us, before_us, 0, per_function), np.array(sorted(worst), np.int64))
    worst_first = sorted((-row["severity_us"], row["id"]) for row in calls if row["is_anomaly"])
    kept = {int(number) for _, number in worst_first[:per_function]} | worst
    for row, is_going in zip(calls, goes, strict=True):
        assert is_going == (
            row["is_anomaly"]
            and (below_us is None or row["severity_us"] < below_us)
            and (before_us is None or row["end_us"] < before_us)
            and int(row["id"]) not in kept
        )


@given(CALLS, st.data())
def test_normal_calls_that_others_are_compared_with_are_found(
    rows: list[tuple[int, int, int, int, bool]], data: st.DataObject
) -> None:
    calls = made_calls(rows)
    anomalies = np.array([bool(row["is_anomaly"]) and data.draw(st.booleans()) for row in calls], np.bool_)
    normal = [row for row in calls if not row["is_anomaly"]]

    def nearest(of: np.void) -> int:
        return int(
            min((n["rank"] != of["rank"], abs(n["step"] - of["step"]), n["rank"], n["id"]) for n in normal)[
                -1
            ]
        )

    wanted = {nearest(row) for row in calls[anomalies]} if normal else set()
    assert set(np.flatnonzero(compared_with(calls, anomalies)).tolist()) == wanted


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return make_whole_run(tmp_path_factory.mktemp("made") / "run", steps=15)


@pytest.fixture(params=["store_url", "postgresql_url"])
def store(made: MadeRun, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A copy of ``made``, and another run, on each kind of database in turn."""
    engine = open_for_writing(request.getfixturevalue(request.param))
    source = open_for_reading(made.directory.store_url)
    copy_run(source, made.directory.read_info().id, engine)
    source.dispose()
    writer = Writer(engine, "other")
    writer.write_run(make_info("other"))
    writer.write([make_batch(records=[make_record(severity_us=1.0)])])
    yield engine
    engine.dispose()


def reading(engine: Engine, run_id: str) -> Provenance:
    return Provenance(open_for_reading(engine.url.render_as_string(hide_password=False)), run_id)


def rank_totals(engine: Engine, run_id: str) -> dict[tuple[int, int], tuple[int, int, float]]:
    """The sums that are kept of ranks."""
    of = RANK_TOTALS.c
    statement = select(of.program, of.rank, of.anomalies, of.normal_calls, of.severity_us)
    with engine.connect() as connection:
        rows = connection.execute(statement.join(RUNS, RUNS.c.number == of.run).where(RUNS.c.id == run_id))
        return {(program, rank): (a, n, lost_us) for program, rank, a, n, lost_us in rows}


def records_of(engine: Engine, run_id: str) -> list[CallRecord]:
    with reading(engine, run_id) as provenance:
        return list(provenance.calls.records(ALL))


RULES = [
    PruneRule(below_us=20_000.0),
    PruneRule(keep=10),
    PruneRule(keep_per_function=3),
    PruneRule(below_us=1e12, keep=10, keep_per_function=2),
    PruneRule(below_us=1e12),
]


@pytest.mark.parametrize(
    ("rule", "store"),
    [*((rule, "store_url") for rule in RULES), (RULES[3], "postgresql_url")],
    indirect=["store"],
    ids=str,
)
def test_the_worst_stay_with_what_they_are_compared_with(
    made: MadeRun, store: Engine, rule: PruneRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", SMALL)
    run_id = made.directory.read_info().id
    with reading(store, run_id) as provenance:
        before, compared = answers(provenance), {}
        records = list(provenance.calls.records(ALL))
        for record in records:
            if record.label is Label.ANOMALY:
                compared[record.id] = provenance.calls.normal_like(record)
    would = prune(store, run_id, rule, is_dry_run=True)
    assert records_of(store, run_id) == records
    pruned = prune(store, run_id, rule, is_dry_run=False)
    assert pruned == would

    left = records_of(store, run_id)
    anomalies = [record for record in left if record.label is Label.ANOMALY]
    gone = [record for record in records if record not in left]
    assert gone
    assert {record.id for record in anomalies} == stays(records, rule)
    touched = {record.function for record in gone if record.label is Label.ANOMALY}
    used = {normal.id for record in anomalies if (normal := compared[record.id]) is not None}
    normal = {record.id for record in left if record.label is Label.NORMAL and record.function in touched}
    assert normal == {record.id for record in left if record.id in used and record.function in touched}
    with reading(store, run_id) as provenance:
        for record in anomalies:
            assert provenance.calls.normal_like(record) == compared[record.id]
        after = answers(provenance) | {"totals": rank_totals(store, run_id)}
    for function in pruned:
        of = [record for record in gone if record.function == function.function]
        abnormal = [record for record in of if record.label is Label.ANOMALY]
        assert (function.anomalies, function.normal_calls) == (len(abnormal), len(of) - len(abnormal))
        assert function.severity_us == pytest.approx(sum(record.severity_us for record in abnormal))
    assert sum(function.anomalies + function.normal_calls for function in pruned) == len(gone)
    counted = after["prunings"]
    assert isinstance(counted, list)
    assert {item.rule for item in counted} == {str(rule)}
    named = [(f.program, f.function, f.anomalies, f.normal_calls) for f in pruned]
    assert [(c.program, c.function, c.anomalies, c.normal_calls) for c in counted] == named
    assert after["totals"] == totals_of(left)
    for kept in ("steps", "health", "functions", "models", "metadata", "counters", "programs"):
        assert after[kept] == before[kept]
    assert len(records_of(store, "other")) == 1
    assert prune(store, run_id, rule, is_dry_run=False) == []


def totals_of(records: list[CallRecord]) -> dict[tuple[int, int], tuple[int, int, float]]:
    """Abnormal and normal calls by rank, and the time lost."""
    found: dict[tuple[int, int], tuple[int, int, float]] = {}
    for record in records:
        anomalies, normal, lost_us = found.get((record.program, record.rank), (0, 0, 0.0))
        is_anomaly = record.label is Label.ANOMALY
        found[record.program, record.rank] = (
            anomalies + is_anomaly,
            normal + (not is_anomaly),
            lost_us + is_anomaly * record.severity_us,
        )
    return {rank: (a, n, pytest.approx(lost_us)) for rank, (a, n, lost_us) in found.items()}


def stays(records: list[CallRecord], rule: PruneRule) -> set[str]:
    """Ids of the abnormal calls that a rule keeps, by its definition."""
    anomalies = [record for record in records if record.label is Label.ANOMALY]
    worst = sorted(anomalies, key=lambda record: -record.severity_us)
    kept = worst[: rule.keep]
    for function in {record.function for record in anomalies}:
        kept += [record for record in worst if record.function == function][: rule.keep_per_function]
    if rule.below_us is not None:
        kept += [record for record in anomalies if record.severity_us >= rule.below_us]
    return {record.id for record in kept}


def test_calls_go_by_their_end(made: MadeRun, store: Engine) -> None:
    run_id = made.directory.read_info().id
    records = records_of(store, run_id)
    middle_us = sorted(record.exit_us for record in records)[len(records) // 2]
    prune(store, run_id, PruneRule(before_us=middle_us), is_dry_run=False)
    left = {record.id for record in records_of(store, run_id) if record.label is Label.ANOMALY}
    assert left == {
        record.id for record in records if record.label is Label.ANOMALY and record.exit_us >= middle_us
    }


def test_states_of_nodes_go_with_the_last_call_of_their_step(made: MadeRun, store: Engine) -> None:
    run_id = made.directory.read_info().id
    prune(store, run_id, PruneRule(keep=3), is_dry_run=False)
    steps = {(record.rank, record.step) for record in records_of(store, run_id) if record.node_state}
    with store.connect() as connection:
        states = connection.execute(select(func.count()).select_from(NODE_STATES)).scalar_one()
    assert steps
    # And that of the other run.
    assert states == len(steps) + 1


def test_rules_are_reported_in_words() -> None:
    assert str(PruneRule(keep=1000)) == "all, but the 1,000 worst"
    rule = PruneRule(below_us=5000.0, keep=10, keep_per_function=2)
    assert str(rule) == "severity below 5.00 ms, but the 10 worst and the 2 worst of each function"
    both = str(PruneRule(below_us=200.0, before_us=1_700_000_000_000_000))
    assert both.startswith("severity below 200 µs and ended before 2023-11-1")
