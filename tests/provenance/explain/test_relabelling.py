"""Stored calls get new labels, or go; whatever else they hold stays."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from sqlalchemy import Engine

from chimbuko.ad.detectors import Verdicts
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import CLEARLY, CallRecord, StepCount, StreamHealth, stretch_row
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.explain import relabelling as module
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.explain.relabelling import Relabelled, relabel
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.storing import Storing
from chimbuko.provenance.write.kept import Kept
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import (
    FunctionModel,
    FunctionStatistics,
    PathStatistics,
    RunStatistics,
)
from tests.causes.flagged import record as flagged
from tests.causes.stories import chain
from tests.provenance.write.test_rollups import OF_CALLS, kept, made_anew
from tests.sample_records import RUN_ID, make_batch, make_batches, make_record, make_run

LIMIT_US = 5000.0


THRESHOLD = 50.0


def verdicts(runtimes_us: Float64Array, score: Float64Array, expected_us: float, seen: float) -> Verdicts:
    """Abnormal is what scores 50 and lost 1 ms."""
    every = np.ones(len(runtimes_us))
    is_costly = runtimes_us - expected_us >= 1000.0
    return Verdicts(
        is_anomaly=(score >= THRESHOLD) & is_costly,
        score=score,
        lost_us=np.maximum(runtimes_us - expected_us, 0.0),
        expected_us=every * expected_us,
        spread_us=every * expected_us / 9.0,
        seen=every * seen,
        threshold=every * THRESHOLD,
        is_costly=is_costly,
    )


def judge(
    program: str,
    function: str,
    exclusive_us: Float64Array,
    inclusive_us: Float64Array,
    recorded_us: Float64Array,
) -> Verdicts | None:
    """Abnormal is what takes 5 ms; of ``young`` nothing is known."""
    assert program == "heat" and (inclusive_us >= exclusive_us).all()
    if function == "young":
        return None
    assert (recorded_us == make_record(0).expected_us).all() or (recorded_us == 900.0).all()
    return verdicts(exclusive_us, exclusive_us / LIMIT_US * THRESHOLD, 900.0, 5000.0)


def nothing_is_abnormal(
    program: str,
    function: str,
    exclusive_us: Float64Array,
    inclusive_us: Float64Array,
    recorded_us: Float64Array,
) -> Verdicts:
    return verdicts(inclusive_us, np.zeros(len(exclusive_us)), 1000.0, 0.0)


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
def store_url(any_store_url: str) -> str:
    return any_store_url


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
        same = {"function", "entry_us", "exit_us", "metrics", "revision"}
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
        # What was said while the run went on is kept.
        assert found.is_relabelled == (found.label != record.label)
        own = next(frame for frame in found.call_stack if frame.id == record.id)
        assert not found.is_relabelled or own.is_anomaly == (found.label is Label.ANOMALY)
    assert relabel(engine, RUN_ID, judge, is_deleting=False) == Relabelled(5, 0, 0, 0)
    # Another run in the same store stays as it was.
    assert by_id(Provenance(engine, "another")) == before


def test_what_was_flagged_on_a_faster_path_stays_flagged(
    stored: tuple[Engine, Callable[[], Provenance]],
) -> None:
    engine, provenance = stored
    runtimes_us = (60_000.0, 1_000.0, 50_000.0, 70_000.0)
    slower = PathStatistics(0, ["main", "solve"], 1000, *runtimes_us, *runtimes_us)
    Writer(engine, RUN_ID).write_statistics(RunStatistics(paths=[slower]))
    assert relabel(engine, RUN_ID, judge, is_deleting=False) == Relabelled(5, 1, 1, 0)
    assert by_id(provenance())[CALLS[1].id].label is Label.ANOMALY
    assert provenance().judged_by_path_to_us() == {(0, "solve"): 50_000 / CLEARLY}


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


def test_what_was_expected_of_the_first_calls_of_a_rank_does_not_count(
    engine: Engine, any_store_url: str
) -> None:
    """The call itself was most of it."""
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run(store_url=any_store_url))
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write([make_batch(records=[msgspec.structs.replace(call(0, 9000, Label.NORMAL), seen=1)])])

    def judged(*of: object) -> Verdicts:
        assert isinstance(of[-1], np.ndarray) and not of[-1].any()
        return verdicts(np.array([9000.0]), np.array([60.0]), 900.0, 40.0)

    assert relabel(engine, RUN_ID, judged, is_deleting=False).now_abnormal == 1


def test_the_last_word_on_a_call_is_that_of_the_judgement(
    stored: tuple[Engine, Callable[[], Provenance]],
) -> None:
    """A node that was cut off delivers the last revision of a call whose first one was stored and judged."""
    engine, provenance = stored
    relabel(engine, RUN_ID, judge, is_deleting=False)
    judged = by_id(provenance())
    last = [msgspec.structs.replace(record, revision=record.revision + 1) for record in CALLS]
    Writer(engine, RUN_ID).write([make_batch(sequence=2, records=last)])
    after = by_id(provenance())
    assert after == {
        name: msgspec.structs.replace(record, revision=record.revision + 1) for name, record in judged.items()
    }
    assert kept(engine, OF_CALLS) == made_anew(engine, OF_CALLS)


def test_calls_that_have_not_ended_stay_as_they_are(engine: Engine, any_store_url: str) -> None:
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run(store_url=any_store_url))
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write([make_batch(records=[make_record(0, function="solve", exit_us=0, revision=0)])])
    assert relabel(engine, RUN_ID, judge, is_deleting=True) == Relabelled(0, 0, 0, 0)


def test_stretches_of_long_calls_stay_as_they_are(engine: Engine, any_store_url: str) -> None:
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run(store_url=any_store_url))
    writer.write_statistics(RunStatistics({0: "heat"}))
    one = msgspec.structs.replace(call(0, 9000, Label.ANOMALY), id=f"0:1:3:{stretch_row(7)}")
    writer.write([make_batch(records=[one])])
    assert relabel(engine, RUN_ID, nothing_is_abnormal, is_deleting=True) == Relabelled(0, 0, 0, 0)
    assert Provenance(engine, RUN_ID).calls.record(one.id).label is Label.ANOMALY


def test_what_held_up_others_stays_abnormal_with_their_waits(
    writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    """All are so frequent that the model knows them; a wait for nobody who is known is ordinary."""
    calls = [*chain(), flagged("MPI_Recv()", 2, 5000, 5100, received_from=[3], row=99)]
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write(make_batches(calls))
    explain(engine, RUN_ID)

    assert relabel(engine, RUN_ID, nothing_is_abnormal, is_deleting=False) == Relabelled(5, 1, 0, 0)
    explain(engine, RUN_ID)
    incidents = Incidents(provenance.reader)
    stay = provenance.calls.page(CallFilter()).calls
    assert {call.incident_id for call in stay} == {"I1"}
    # Their runtimes are ordinary by the model: what they belong to makes them reach the threshold.
    assert {call.score for call in stay} == {THRESHOLD}
    (gone,) = provenance.calls.page(CallFilter(label="normal")).calls
    assert (gone.is_relabelled, gone.incident_id) == (True, "")
    # The address of its incident stays, and says what became of it.
    assert incidents.page().total == 1
    assert incidents.one("I2").is_gone and not incidents.one("I1").is_gone


def test_incidents_that_are_kept_in_memory_uphold_the_same_and_are_stored_once(
    writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    calls = [*chain(), flagged("MPI_Recv()", 2, 5000, 5100, received_from=[3], row=99)]
    writer.write_statistics(RunStatistics({0: "heat"}))
    kept, incidents = Kept(), Incidents(provenance.reader)
    destination = Destination(engine.url.render_as_string(False), RUN_ID)
    storing = Storing(destination, kept.take, lambda _: None, kept=kept)
    storing.records(make_batches(calls))
    storing.explain(True)
    storing.store.close()
    assert kept.incidents is not None and kept.incidents.keys() == {1, 2}
    assert not incidents.page().total
    writer.write_incidents(msgspec.structs.replace(kept.left(), incidents=[]))

    relabelled = relabel(engine, RUN_ID, nothing_is_abnormal, False, kept.incidents)
    assert relabelled == Relabelled(5, 1, 0, 0)
    explain(engine, RUN_ID, kept=kept)
    assert {call.incident_id for call in provenance.calls.page(CallFilter()).calls} == {"I1"}
    (told,) = incidents.page().incidents
    assert (told.id, told.flags) == ("I1", 4)


def test_what_was_never_flagged_keeps_no_wait_for_it_abnormal(
    writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    """Flight recorders have it in a live run, and must not decide what is abnormal."""
    delay, *waits = chain()
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write(make_batches([msgspec.structs.replace(delay, label=Label.NORMAL), *waits]))
    explain(engine, RUN_ID)
    (found,) = Incidents(provenance.reader).page().incidents
    assert (found.call_id, found.flags) == (delay.id, 3)
    assert relabel(engine, RUN_ID, nothing_is_abnormal, is_deleting=False) == Relabelled(4, 3, 0, 0)
    explain(engine, RUN_ID)
    assert Incidents(provenance.reader).one(found.id).is_gone


def test_counts_follow_the_labels(stored: tuple[Engine, Callable[[], Provenance]]) -> None:
    """Whatever counts anomalies says the same: steps, ranks and functions, also with some not recorded."""
    engine, provenance = stored
    step = CALLS[0].step
    before = FunctionStatistics(0, "solve", 50, 3, 24_000.0, 900.0, 9.0, 1.0, 9000.0, 1000.0, 9000.0)
    health = StreamHealth(0, 1, "node7", "ended", 1, 100, 4800, 48, 6, 0, {})
    steps = [StepCount(0, 1, step, 1_000_000, 2_000_000, 50, 6, 30_000.0, 99.0)]
    writer = Writer(engine, RUN_ID)
    writer.write_statistics(RunStatistics({0: "heat"}, functions=[before], health=[health]))
    writer.write([make_batch(steps=steps, health=health)])
    relabel(engine, RUN_ID, judge, is_deleting=False)
    after = provenance()
    (counted,) = after.steps.counts([(0, 1)])
    # Two of six are normal now, and one that was normal is not; one of three of ``solve`` is not recorded.
    assert (counted.anomalies, counted.highest_score) == (5, 90.0)
    assert [stream.anomalies for stream in after.health()] == [5]
    (solve,) = (one for one in after.function_statistics() if one.name == "solve")
    assert solve.anomalies == 3
    lost_us = sum(call.severity_us for call in after.calls.page(CallFilter(function="solve")).calls)
    old_us = sum(call.severity_us for call in CALLS[:2])
    assert solve.severity_us == pytest.approx(24_000.0 - old_us + lost_us)
