"""Slow modes as findings of a stored run."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from sqlalchemy import Engine

from chimbuko.causes.incidents.sentence import recurrence_sentence
from chimbuko.causes.incidents.slowmodes import SlowMode
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.pathtable import PATH_TIME
from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.core.calls.schema import Label
from chimbuko.monitor.sampling.nodebatch import NodeBatch, packed
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.slowmodes import ModeCauses, slow_modes
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionStatistics, PathStatistics, PathTimes, RunStatistics
from tests.causes.flagged import at, record
from tests.causes.losses import loss, shared
from tests.causes.nodes import batch, names, thread, ticks
from tests.sample_records import RUN_ID, make_batch, make_batches


def mode(function: str, share: float = 0.007) -> SlowMode:
    """Calls of 80 ms instead of 15 µs."""
    return SlowMode("heat", function, 40_000.0, share, 80_000.0, 15.0, 79_985.0)


def statistics(*functions: str) -> RunStatistics:
    """Each of 10,000 calls, slow below ``solve`` and not below ``setup``."""
    runtimes = (20.0, 1.0, 10.0)
    return RunStatistics(
        {0: "heat"},
        functions=[
            FunctionStatistics(0, name, 10_000, 1, 0.0, 560.0, 0.0, 1.0, 81_000.0, 560.0, 81_000.0)
            for name in functions
        ],
        paths=[
            PathStatistics(0, ["main", caller, name], 5_000, *runtimes, longest_us, *runtimes, longest_us)
            for name in functions
            for caller, longest_us in (("solve", 81_000.0), ("setup", 30.0))
        ],
    )


def found(
    writer: Writer, provenance: Provenance, engine: Engine, slow: SlowMode, calls: list[CallRecord]
) -> list[tuple[str, Recurrence]]:
    writer.write_statistics(statistics(slow.function))
    writer.write(make_batches(calls))
    explain(engine, RUN_ID)
    return [(recurrence_sentence(one), one) for one in slow_modes(provenance, [slow])]


def every_second(function: str, count: int = 8, length_ms: int = 80) -> list[CallRecord]:
    return [
        record(function, 3, 1000 * n, 1000 * n + length_ms + n / 10, row=n + 1, usual_ms=0.015)
        for n in range(count)
    ]


def test_what_is_told_of_a_slow_mode(writer: Writer, provenance: Provenance, engine: Engine) -> None:
    calls = [*every_second("step"), record("step", 3, 20_000, 20_005, usual_ms=0.015)]
    ((told, one),) = found(writer, provenance, engine, mode("step"), calls)
    assert told == (
        "step: 62 of 10,000 calls (0.62 %) take 80 ms on average instead of 15 µs, called by solve, "
        "every 1 s, seen on rank 3: 4.96 s lost in all."
    )
    # Eight are incidents, and count there.
    assert (one.kind, one.calls, one.ranks) == (RecurrenceKind.SLOW_MODE, 62, [3])
    incidents_us = Incidents(provenance.reader).page().cost_us
    assert incidents_us + one.cost_us == pytest.approx(4_985 + 70 * 79_985)
    assert (one.begin_us, one.end_us) == (at(0), at(7080.7))
    # The most severe, and the newest.
    assert one.examples == ["0:3:1:8", "0:3:1:7", "0:3:1:6", "0:3:1:5"]


def waits() -> list[NodeBatch]:
    """Rank 3 shares cores in the first 80 ms of each second."""
    there = [msgspec.structs.replace(one, cpus="0-1") for one in names(3 + 1)]
    looks = [
        thread(3, 1000 * n + 20 * part, 1000 * n + 20 * part + 20, ran_us=1000, waited_us=19_000)
        for n in range(8)
        for part in range(4)
    ]
    return [batch([], periods=[thread(3, -60_000, 0)], is_sum=True), batch(looks, names=there)]


def test_what_of_the_node_a_slow_mode_is_by(writer: Writer, provenance: Provenance, engine: Engine) -> None:
    writer.write_samples(map(packed, waits()))
    ((told, _),) = found(writer, provenance, engine, mode("step"), every_second("step"))
    assert "seen on rank 3, as it waited for its core (4 ranks share 2 cores): " in told


def test_a_cause_is_asked_for_again_only_where_a_mode_is_another_one(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    found(writer, provenance, engine, mode("step"), every_second("step"))
    unknown, late, growing = (ModeCauses(provenance) for _ in range(3))

    def cause(causes: ModeCauses, share: float = 0.007) -> str:
        (one,) = slow_modes(provenance, [mode("step", share)], causes)
        return one.cause

    assert [cause(unknown), cause(unknown), cause(late), cause(growing), cause(growing)] == [""] * 5
    writer.write_samples(map(packed, waits()))
    # Samples may come later than calls, but what is the same is not asked for ever.
    assert [cause(late), cause(unknown), cause(unknown, 0.008)] == ["waited for core", "", ""]
    assert [cause(growing, 0.01), cause(growing, 0.009)] == ["waited for core"] * 2


@pytest.mark.parametrize(("rank", "findings"), [(3, 0), (2, 1)], ids=["its rank", "another rank"])
def test_calls_that_are_slow_while_their_rank_has_lost_its_core_are_no_recurrence(
    writer: Writer, provenance: Provenance, engine: Engine, rank: int, findings: int
) -> None:
    writer.write_samples([packed(shared(loss(rank, 0, 5_500, 2_000)))])
    assert len(found(writer, provenance, engine, mode("step"), every_second("step"))) == findings


def test_cost_is_share_times_excess_also_where_a_few_calls_hold_it(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    uneven = SlowMode("heat", "step", 50.0, 0.007, 70.0, 1.0, 45_000.0)
    ((told, one),) = found(writer, provenance, engine, uneven, [])
    assert "take 45 ms on average (half of them 70 µs or less) instead of 1 µs" in told
    assert one.cost_us == pytest.approx(one.calls * 45_000.0)


def test_without_recorded_calls_it_is_told_what_is_known(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    ((told, one),) = found(writer, provenance, engine, mode("step"), [])
    assert told.startswith(
        "step: 70 of 10,000 calls (0.7 %) take 80 ms on average instead of 15 µs, called by solve: "
    )
    assert (one.examples, one.ranks, one.begin_us) == ([], [], 0)


def test_waits_that_are_explained_or_ordinary_are_not_told(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    waits = every_second("MPI_Recv()")
    assert len(found(writer, provenance, engine, mode("MPI_Recv()"), waits)) == 1
    assert found(writer, provenance, engine, mode("MPI_Recv()", share=0.2), []) == []
    late = [record("relax", 2, 1000 * n, 1000 * n + 80) for n in range(8)]
    assert found(writer, provenance, engine, mode("MPI_Recv()"), late) == []


def test_few_that_are_all_recorded_are_incidents_only(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    assert found(writer, provenance, engine, mode("step", share=0.0008), every_second("step")) == []
    assert Incidents(provenance.reader).page().total == 8


def test_a_few_that_hold_most_of_a_mode_are_incidents_only(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    # Eight calls of 80 ms and 62 of 30 µs more: 0.3 % of the cost.
    uneven = SlowMode("heat", "step", 40.0, 0.007, 45.0, 15.0, (8 * 80_000.0 + 62 * 30.0) / 70)
    assert found(writer, provenance, engine, uneven, every_second("step")) == []
    # Of which only half are in incidents: what else there is must be said.
    ((_, one),) = found(writer, provenance, engine, replace(uneven, lost_us=2 * uneven.lost_us), [])
    assert one.calls == 62


def test_a_mode_of_a_function_that_the_run_does_not_know_is_left_out(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    writer.write_statistics(statistics("step"))
    assert slow_modes(provenance, [mode("of another run")]) == []


def test_what_another_rank_lost_meanwhile_is_no_cause_of_a_mode(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    # Rank 3 waits while rank 2 is stopped: so its waits are explained, and in no mode either.
    stops = [loss(2, 1000 * n, 1000 * n + 80, 80, is_stopped=True) for n in range(8)]
    rows = [row for n in range(8) for row in ticks(2, 1000 * n, 1000 * n + 80, state=b"T", ran_us=0)]
    writer.write_samples([packed(batch(rows, losses=stops))])
    assert found(writer, provenance, engine, mode("MPI_Recv()"), every_second("MPI_Recv()")) == []
    # What rank 3 computes meanwhile is its own affair.
    ((_, one),) = found(writer, provenance, engine, mode("step"), every_second("step"))
    assert one.cause == ""


def test_a_call_that_took_many_times_as_long_as_those_of_a_mode_is_an_incident_and_none_of_it(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    far = record("step", 2, 500, 1_500, row=99, usual_ms=0.015)
    uneven = replace(mode("step"), lost_us=(70 * 79_985 + 999_985) / 71, share=0.0071)
    ((told, one),) = found(writer, provenance, engine, uneven, [*every_second("step"), far])
    assert (one.calls, one.ranks) == (62, [3])
    incidents_us = Incidents(provenance.reader).page().cost_us
    assert incidents_us + one.cost_us == pytest.approx(70 * 79_985 + 999_985)
    assert told.startswith("step: 62 of 10,000 calls (0.62 %) take 80 ms on average instead of 15 µs")


def test_a_mode_that_is_usual_for_its_caller_or_on_its_rank_is_no_loss(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    """As the ordinary output of rank 0, in a function that does nothing on the others."""
    calls = [replace_label(one) for one in every_second("write_output")]
    writer.write_statistics(statistics("write_output"))
    writer.write(make_batches(calls))
    health = [StreamHealth(0, rank, "node7", "ended", 9, 0, 0, 400, 0, 0, {}) for rank in range(4)]
    paths = paths_of("write_output", 100)
    writer.write([make_batch(9, f"0:{one.rank}", health=one, paths=paths) for one in health])
    assert len(slow_modes(provenance, [mode("write_output", share=0.0008)])) == 1
    assert slow_modes(provenance, [mode("write_output", share=0.004)]) == []
    rarely = statistics("write_output")
    by_solve = msgspec.structs.replace(rarely.paths[0], calls=100)
    writer.write_statistics(msgspec.structs.replace(rarely, paths=[by_solve, rarely.paths[1]]))
    assert slow_modes(provenance, [mode("write_output", share=0.002)]) == []


def replace_label(one: CallRecord) -> CallRecord:
    """The final judgement found it to be normal."""
    return msgspec.structs.replace(one, label=Label.NORMAL, score=0.0)


def paths_of(function: str, calls: int) -> PathTimes:
    rows = np.array([(-1, -1, 0, 0.0), (-1, 0, calls, 1000.0)], PATH_TIME)
    return PathTimes([function], rows.tobytes())
