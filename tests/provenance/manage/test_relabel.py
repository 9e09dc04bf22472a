"""Stored calls get new labels, or go; whatever else they hold stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from sqlalchemy import Engine

from chimbuko.arrays import Float64Array
from chimbuko.calls.record import CallRecord
from chimbuko.calls.schema import Label
from chimbuko.protocol.messages import FunctionModel, RunStatistics
from chimbuko.provenance.manage import relabel as module
from chimbuko.provenance.manage.relabel import Relabelled, Verdicts, relabel
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

LIMIT_US = 5000.0


def judge(
    program: str, function: str, exclusive_us: Float64Array, inclusive_us: Float64Array
) -> Verdicts | None:
    """Abnormal is what takes 5 ms; of ``young`` nothing is known."""
    assert program == "heat" and (inclusive_us >= exclusive_us).all()
    if function == "young":
        return None
    expected_us = np.full(len(exclusive_us), 900.0)
    return Verdicts(
        exclusive_us >= LIMIT_US,
        exclusive_us / 100.0,
        np.maximum(exclusive_us - 900.0, 0.0),
        expected_us,
        expected_us / 9.0,
        np.full(len(exclusive_us), 5000.0),
    )


def call(row: int, exclusive_us: int, label: Label, function: str = "solve") -> CallRecord:
    entry = 1_000_000 + 100_000 * row
    return make_record(
        row,
        function=function,
        label=label,
        entry_us=entry,
        exit_us=entry + exclusive_us + 1000,
        counters=[],
        messages=[],
    )


CALLS = [
    call(0, 9000, Label.ANOMALY),
    call(1, 3000, Label.ANOMALY),
    call(2, 800, Label.NORMAL),
    call(3, 7000, Label.NORMAL),
    call(4, 3000, Label.ANOMALY, "young"),
    call(5, 100, Label.ANOMALY, "norm"),
]


@pytest.fixture
def engine(any_store_url: str) -> Iterator[Engine]:
    engine = open_for_writing(any_store_url)
    yield engine
    close(engine)


@pytest.fixture
def stored(engine: Engine, any_store_url: str) -> tuple[Engine, Callable[[], Provenance]]:
    for run_id in (RUN_ID, "another"):
        writer = Writer(engine, run_id)
        writer.write_run(make_run(run_id, store_url=any_store_url))
        writer.write_statistics(RunStatistics({0: "heat"}))
        writer.write([make_batch(records=CALLS)])
        writer.write_statistics(
            RunStatistics(models=[FunctionModel(version, 0, "solve", b"12345678") for version in (3, 21)])
        )
    return engine, lambda: Provenance(engine, RUN_ID)


def by_id(provenance: Provenance) -> dict[str, CallRecord]:
    ids = [found.id for found in provenance.calls.page(CallFilter(label=None)).calls]
    return {found: provenance.calls.record(found) for found in ids}


def test_labels_and_what_goes_with_them_are_replaced(stored: tuple[Engine, Callable[[], Provenance]]) -> None:
    engine, provenance = stored
    before = by_id(provenance())
    assert relabel(engine, RUN_ID, judge, is_deleting=False) == Relabelled(5, 2, 1, 0)
    after = by_id(provenance())
    labels = [after[record.id].label for record in CALLS]
    assert [label is Label.ANOMALY for label in labels] == [True, False, False, True, True, False]
    for record in CALLS:
        found = after[record.id]
        same = {"function", "entry_us", "exit_us", "call_stack", "window", "metrics", "revision"}
        assert all(getattr(found, name) == getattr(before[record.id], name) for name in same)
        if record.function == "young":
            assert found == before[record.id]
            continue
        assert (found.expected_us, found.spread_us, found.seen, found.model_version) == (
            900.0,
            100.0,
            5000,
            21,
        )
        assert found.score == record.exclusive_us / 100.0
        assert found.severity_us == max(record.exclusive_us - 900.0, 0.0)
    assert relabel(engine, RUN_ID, judge, is_deleting=False) == Relabelled(5, 0, 0, 0)
    # Another run in the same store stays as it was.
    assert by_id(Provenance(engine, "another")) == before


def test_calls_that_are_abnormal_no_longer_can_be_removed(
    stored: tuple[Engine, Callable[[], Provenance]],
) -> None:
    engine, provenance = stored
    assert relabel(engine, RUN_ID, judge, is_deleting=True) == Relabelled(5, 2, 1, 2)
    assert sorted(by_id(provenance())) == [CALLS[number].id for number in (0, 2, 3, 4)]
    assert len(by_id(Provenance(engine, "another"))) == len(CALLS)


def test_calls_are_judged_some_at_a_time(
    stored: tuple[Engine, Callable[[], Provenance]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    engine, _ = stored
    assert relabel(engine, RUN_ID, judge, is_deleting=False) == Relabelled(5, 2, 1, 0)


def test_calls_that_have_not_ended_stay_as_they_are(engine: Engine, any_store_url: str) -> None:
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run(store_url=any_store_url))
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write([make_batch(records=[make_record(0, function="solve", exit_us=0, revision=0)])])
    assert relabel(engine, RUN_ID, judge, is_deleting=True) == Relabelled(0, 0, 0, 0)
