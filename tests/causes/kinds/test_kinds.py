"""Each cause, by the smallest story in which it is the cause, and one in which it is not."""

from __future__ import annotations

from typing import Any

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag, flag_of
from chimbuko.causes.kinds.cause import Finder
from chimbuko.causes.kinds.children import in_child, late_child
from chimbuko.causes.kinds.peers import late_at_collective, late_receiver, late_sender, slow_operation
from chimbuko.causes.kinds.rest import own_code
from chimbuko.causes.kinds.work import counter, more_bytes, more_calls
from chimbuko.causes.part import Part
from chimbuko.core.calls.record import CallRecord
from tests.causes.flagged import flag, record


def found(parts: Finder, one: Flag, *others: Flag) -> list[Part]:
    evidence = Evidence()
    for other in (one, *others):
        evidence.put(other)
    return list(parts(one, evidence))


def test_late_sender_is_the_partner_that_lost_time_meanwhile() -> None:
    late = flag("compute", 2, 0, 100)
    wait = flag("MPI_Recv()", 1, 5, 102, received_from=[2])
    bystander = flag("compute", 3, 0, 100, row=5)
    assert found(late_sender, wait, late, bystander) == [Part("late sender", 95_000, "compute", 2, late.id)]


def found_of(parts: Finder, *records: CallRecord) -> list[Part]:
    """Parts of the first of these; all were recorded, and are abnormal."""
    evidence = Evidence()
    for one in records:
        evidence.communication.put(one)
        evidence.put(flag_of(one))
    return list(parts(flag_of(records[0]), evidence))


def test_of_several_senders_the_one_that_sent_last_was_waited_for() -> None:
    wait = record("MPI_Waitall()", 1, 5, 102, received_from=[2, 3], number=9)
    in_time = record("compute", 2, 0, 101, number=9, sends_after=[(1, 3)])
    late = record("compute", 3, 0, 100, number=9, sends_after=[(1, 101)])
    assert found_of(late_sender, wait, in_time, late) == [Part("late sender", 95_000, "compute", 3, late.id)]


def test_who_is_known_to_have_sent_in_time_held_nobody_up() -> None:
    wait = record("MPI_Recv()", 1, 5, 102, received_from=[2], number=9)
    in_time = record("compute", 2, 10, 100, number=9, sends_after=[(1, 3)])
    assert all(not part.is_matched for part in found_of(late_sender, wait, in_time))
    assert found_of(slow_operation, wait, in_time) == [Part("slow operation", 97_000)]


def test_a_sender_is_known_to_be_late_also_where_nobody_knows_why() -> None:
    wait = record("MPI_Recv()", 1, 5, 102, received_from=[2], number=9)
    other = record("compute", 2, 200, 300, number=9, sends_after=[(1, 92)])
    assert found_of(late_sender, wait, other) == [Part("late sender", 87_000, rank=2)]
    assert found_of(slow_operation, wait, other) == [Part("slow operation", 10_000)]


def test_who_entered_a_collective_operation_last_is_known_by_its_number() -> None:
    wait = record("MPI_Barrier()", 1, 5, 102, enters=[(4, 5)])
    peer = record("MPI_Barrier()", 0, 6, 102, enters=[(4, 6)])
    last = record("compute", 2, 0, 99, enters=[(4, 101)])
    # Of another communicator, or on its way to another operation.
    bystander = record("compute", 3, 0, 101, enters=[(5, 101)])
    assert found_of(late_at_collective, wait, peer, last, bystander) == [
        Part("late at collective", 94_000, "compute", 2, last.id)
    ]


def test_the_one_rank_that_does_not_wait_is_who_came_last() -> None:
    waits = [record("MPI_Barrier()", rank, 5, 102) for rank in range(3)]
    bystander = record("compute", 3, 500, 600)
    assert found_of(late_at_collective, *waits, bystander) == [
        Part("late at collective", 96_000, rank=3, is_matched=False)
    ]


def test_after_all_have_come_an_operation_is_slow() -> None:
    waits = [record("MPI_Barrier()", rank, 5 + 15 * rank, 102) for rank in range(3)]
    assert found_of(late_at_collective, *waits) == [
        Part("late at collective", 30_000, rank=2, is_matched=False)
    ]
    assert found_of(slow_operation, *waits) == [Part("slow operation", 67_000)]


def test_late_sender_that_is_not_on_record_is_named_by_its_message() -> None:
    wait = flag("MPI_Recv()", 1, 5, 102, received_from=[2])
    assert found(late_sender, wait) == [Part("late sender", 96_000, rank=2)]


def test_without_messages_a_wait_is_explained_by_who_lost_time_then_and_says_so() -> None:
    late = flag("compute", 2, 0, 100)
    (part,) = found(late_sender, flag("MPI_Wait()", 1, 5, 102), late)
    assert (part.rank, part.call_id, part.is_matched) == (2, late.id, False)


def test_who_loses_time_after_a_wait_or_hardly_any_during_it_does_not_explain_it() -> None:
    wait = flag("MPI_Recv()", 1, 0, 100, received_from=[2])
    after, short = flag("compute", 2, 20, 200), flag("compute", 2, 10, 30, row=7)
    assert found(late_sender, wait, after, short) == [Part("late sender", 99_000, rank=2)]


def test_late_receiver_is_who_a_blocking_send_waited_for() -> None:
    late = flag("compute", 2, 0, 100)
    send = flag("MPI_Ssend()", 1, 5, 102, sent_to=[2])
    assert found(late_receiver, send, late) == [Part("late receiver", 95_000, "compute", 2, late.id)]
    assert found(late_receiver, flag("MPI_Isend()", 1, 5, 102, sent_to=[2]), late) == []


def test_at_a_collective_all_wait_for_the_one_that_came_last() -> None:
    first, last = flag("compute", 2, 0, 80), flag("compute", 3, 0, 100)
    wait, peer = flag("MPI_Barrier()", 1, 1, 101), flag("MPI_Barrier()", 4, 1, 100.5)
    (part,) = found(late_at_collective, wait, first, last, peer)
    assert (part.kind, part.rank, part.call_id) == ("late at collective", 3, last.id)
    assert part.lost_us == 99_000


def test_time_in_flagged_calls_inside_is_theirs_where_calls_are_judged_with_them() -> None:
    outer = flag("solve", 0, 0, 100, children=[("relax", 10, 90)], is_inclusive=True)
    inner = flag("relax", 0, 10, 90, inside=[(outer.id, "solve")], is_inclusive=True)
    deeper = flag("kernel", 0, 20, 90, inside=[(inner.id, "relax"), (outer.id, "solve")], is_inclusive=True)
    assert found(in_child, outer, inner, deeper) == [Part("in child", 79_000, "relax", None, inner.id)]
    exclusive = flag("solve", 0, 0, 100, children=[("relax", 10, 30)])
    assert found(in_child, exclusive, inner) == []


def with_ordinary(parts: Finder, one: Flag, ordinary: Flag | None) -> list[Part]:
    evidence = Evidence()
    evidence.put(one)
    if ordinary is not None:
        evidence.put_ordinary(ordinary)
    return list(parts(one, evidence))


def test_more_calls_than_an_ordinary_call_makes_are_a_cause() -> None:
    def solve(calls: int, **more: Any) -> Flag:
        sweeps = [("sweep", 1 + n, 1.5 + n) for n in range(calls)]
        return flag("solve", 0, 0, 1 + calls, children=sweeps, **more)

    many = solve(100, is_inclusive=True)
    assert with_ordinary(more_calls, many, solve(5)) == [Part("more calls", 95 * 500, "sweep")]
    assert with_ordinary(more_calls, many, solve(80)) == []
    assert with_ordinary(more_calls, many, None) == []
    # What is judged without the calls inside does not take longer by them.
    assert with_ordinary(more_calls, solve(100), solve(5)) == []


def test_more_bytes_than_an_ordinary_call_moves_are_a_cause() -> None:
    one = flag("MPI_Send()", 0, 0, 50, sent_to=[1, 1, 1])
    ordinary = flag("MPI_Send()", 0, 90, 91, sent_to=[1])
    assert with_ordinary(more_bytes, one, ordinary) == [Part("more bytes", 2_000)]
    assert with_ordinary(more_bytes, ordinary, one) == []
    assert with_ordinary(more_bytes, one, flag("MPI_Send()", 0, 90, 91)) == []


def test_who_sent_more_bytes_is_named_by_the_receive() -> None:
    receive = flag("MPI_Recv()", 1, 0, 50, received_from=[0, 0, 0])
    evidence = Evidence()
    evidence.put(receive)
    evidence.put_ordinary(flag("MPI_Recv()", 1, 90, 91, received_from=[0]))
    evidence.put(flag("MPI_Send()", 2, 5, 52, sent_to=[1, 1, 1]))
    evidence.put(flag("MPI_Send()", 0, 1, 3, sent_to=[1]))
    assert list(more_bytes(receive, evidence)) == [Part("more bytes", 2_000)]
    send = flag("MPI_Send()", 0, 5, 51, sent_to=[1, 1, 1])
    evidence.put(send)
    assert list(more_bytes(receive, evidence)) == [Part("more bytes", 2_000, "MPI_Send()", 0, send.id)]


def test_what_rose_more_in_a_call_than_in_an_ordinary_one_is_a_cause() -> None:
    usual = {"PAPI_TOT_INS": 1_000, "PAPI_L3_TCM": 10, "PAPI_TOT_CYC": 2_000, "TIME": 1_000}

    def relax(times: int, end_ms: float, **more: Any) -> Flag:
        rose = [(name, value * (times if name == "PAPI_L3_TCM" else 50)) for name, value in usual.items()]
        return flag("relax", 0, 0, end_ms, metrics=rose, **more)

    ordinary = flag("relax", 0, 90, 91, metrics=[*usual.items()])
    rose_most = Part("counter out of range", 59_000, by="PAPI_L3_TCM", count=60)
    assert with_ordinary(counter, relax(60, 100), ordinary) == [rose_most]
    assert with_ordinary(counter, ordinary, relax(60, 100)) == []
    assert with_ordinary(counter, relax(60, 100), flag("relax", 0, 90, 91)) == []
    # What is behind the last call inside it is not what it did.
    outer = relax(60, 100, children=[("sweep", 1, 2)])
    assert with_ordinary(counter, outer, ordinary) == []


def test_bytes_of_files_are_counted_whatever_the_file_and_clocks_are_no_cause() -> None:
    many = [("Bytes Written <file=a>", 3_000), ("Bytes Written <file=b>", 1_000), ("Heap (KB)", 90)]
    few = [("Bytes Written <file=c>", 1_000), ("Heap (KB)", 1)]
    one, ordinary = flag("write", 0, 0, 50, counters=many), flag("write", 0, 90, 91, counters=few)
    assert with_ordinary(counter, one, ordinary) == [
        Part("counter out of range", 3_000, by="Bytes Written", count=4)
    ]
    clocks = [flag("write", 0, 0, 50 * n, metrics=[("PAPI_TOT_CYC", n)]) for n in (9, 1)]
    assert with_ordinary(counter, *clocks) == []
    polls = [flag("MPI_Recv()", 0, 0, 50 * n, metrics=[("PAPI_TOT_INS", n)]) for n in (9, 1)]
    assert with_ordinary(counter, *polls) == []


def test_a_gap_before_a_function_of_the_program_is_a_late_launch_of_it() -> None:
    newton = flag("MD_NEWTON", 0, 0, 300, children=[("MD_STEP", 1, 50), ("MD_FORCES", 250, 299)])
    assert found(late_child, newton) == [Part("late child", 200_000, "MD_FORCES")]
    before_mpi = flag("checkpoint", 0, 0, 300, children=[("MPI_Reduce()", 250, 299)])
    at_the_end = flag("solve", 0, 0, 300, children=[("relax", 1, 20)])
    assert found(late_child, before_mpi) == found(late_child, at_the_end) == []


def test_own_code_is_never_the_cause_of_a_wait() -> None:
    assert found(own_code, flag("relax", 0, 0, 100)) == [Part("own code", 99_000)]
    assert found(own_code, flag("MPI_Isend()", 0, 0, 100)) == [Part("own code", 99_000)]
    assert found(own_code, flag("MPI_Waitall()", 0, 0, 100)) == []
    assert found(own_code, flag("cudaDeviceSynchronize", 0, 0, 100)) == []
