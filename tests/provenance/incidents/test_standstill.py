"""Ranks that stood still until they were ended, and what is stored of it."""

from __future__ import annotations

import msgspec

from chimbuko.causes.incidents.sentence import recurrence_sentence
from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.calls.record import CounterStatistics, Silence, StreamHealth
from chimbuko.monitor.collector.batchmaker import BatchMaker, ThreadNames
from chimbuko.monitor.sampling.nodebatch import NodeFinding, packed
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.incidents.standstill import is_circle, standstills
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from tests.sample_records import make_batch

SINCE_US = 1_700_000_000_000_000
NONE = StreamHealth(0, 0, "n1", "reading", 9, 90, 900, 40, 0, 0, {}, open_calls=2)


def silent(rank: int, *stack: str) -> StreamHealth:
    silence = Silence(SINCE_US, stack[-1], SINCE_US, list(stack))
    return msgspec.structs.replace(NONE, rank=rank, state="silent", silence=silence)


def ended(rank: int, **more: object) -> StreamHealth:
    return msgspec.structs.replace(NONE, rank=rank, state="broken", steps=10, **more)


def test_ranks_that_wait_for_each_other_are_a_finding_after_their_end_too(
    writer: Writer, provenance: Provenance
) -> None:
    ranks = [silent(rank, "main", "exchange", "MPI_Recv()") for rank in range(2)]
    writer.write_statistics(RunStatistics({0: "heat"}, health=ranks))
    (live,) = recurring(provenance)
    writer.write([make_batch(9, f"0:{rank}", health=ended(rank)) for rank in range(2)])
    (one,) = recurring(provenance)
    assert live.key == one.key and one.kind is RecurrenceKind.DEADLOCK
    assert (one.ranks, one.functions, one.begin_us) == ([0, 1], ["MPI_Recv()"], SINCE_US)
    text = recurrence_sentence(one)
    assert text.startswith(
        "Deadlock in MPI_Recv: all 2 ranks wait in MPI, and no call of theirs ends: 0-1 in"
    )
    (stood,) = standstills(provenance)
    assert stood.stacks == {rank: ["main", "exchange", "MPI_Recv()"] for rank in range(2)}


def test_who_went_on_before_it_ended_did_not_stand_still(writer: Writer, provenance: Provenance) -> None:
    writer.write_statistics(RunStatistics({0: "heat"}, health=[silent(0, "main"), silent(1, "main")]))
    over = [ended(0, calls=41), ended(1, open_calls=0)]
    writer.write([make_batch(9, f"0:{one.rank}", health=one) for one in over])
    assert list(standstills(provenance)) == []


def test_threads_of_python_that_hold_what_the_others_wait_for(writer: Writer, provenance: Provenance) -> None:
    moments = (27.0, 65_000.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    locks = [
        CounterStatistics(f"Waited for a lock: {name}", *moments)
        for name in ("a, held by dead.first", "b, held by dead.second")
    ]
    batches = BatchMaker("n1", SINCE_US, ThreadNames())
    (batch,) = [make_batch(9, "0:0", health=silent(0, "dead.<module>", "dead.first"))]
    writer.write([msgspec.structs.replace(batch, counter_statistics=locks)])
    assert recurring(provenance) == [], "who is silent may compute"
    said = NodeFinding("deadlock", "the threads of process 9 (python3) wait for each other", "")
    node = batches.make({}, True, SINCE_US, SINCE_US + 20_000_000)
    writer.write_samples([packed(msgspec.structs.replace(node, findings=[said]))])
    (one,) = recurring(provenance)
    assert "threads of rank 0 wait for each other" in one.by and "for b, held by dead.second" in one.by


def test_locks_that_are_held_in_a_circle() -> None:
    assert is_circle(["a, held by m.first", "b, held by m.second"])
    assert not is_circle(["a, held by m.work"]), "who holds it may be at work"
    assert not is_circle(["a", "b"]) and not is_circle([])


def test_threads_of_a_native_program_are_told_by_their_node(writer: Writer, provenance: Provenance) -> None:
    writer.write([make_batch(9, "0:0", health=NONE)])
    said = NodeFinding("deadlock", "the threads of process 9 (app) wait for each other: since 12:00", "")
    node = BatchMaker("n1", SINCE_US, ThreadNames()).make({}, True, SINCE_US, SINCE_US + 20_000_000)
    writer.write_samples([packed(msgspec.structs.replace(node, findings=[said]))])
    (one,) = recurring(provenance)
    assert (one.kind, one.cost_us) == (RecurrenceKind.DEADLOCK, 20e6)
    text = recurrence_sentence(one)
    assert text == f"Deadlock: {said.text}: 20 s lost in all."
