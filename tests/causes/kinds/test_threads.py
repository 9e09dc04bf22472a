"""Waits for other threads of a rank, at barriers of OpenMP."""

from __future__ import annotations

from msgspec.structs import replace

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.incidents.sentence import recurrence_sentence, sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.causes.kinds.peers import late_thread
from chimbuko.causes.part import Part
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.functionnames import place_of_construct, short_name
from chimbuko.core.calls.record import CallRecord
from tests.causes.flagged import record

BARRIER = "OpenMP barrier solve [{/src/app.c} {120,0}]"
LOOP = "OpenMP loop solve [{/src/app.c} {121,0}]"


def on(thread: int, function: str, begin_ms: float, end_ms: float, number: int = 0) -> CallRecord:
    enters = [(number, begin_ms)] if number else []
    made = record(function, 0, begin_ms, end_ms, row=1000 * thread + round(begin_ms * 10) + 1, enters=enters)
    return replace(made, thread=thread)


def found_of(*records: CallRecord) -> list[Part]:
    evidence = Evidence()
    for one in records:
        evidence.communication.put(one)
        evidence.put(flag_of(one))
    return list(late_thread(flag_of(records[0]), evidence))


def test_the_thread_that_came_last_is_waited_for() -> None:
    wait, late = on(1, BARRIER, 10, 50, 7), on(3, LOOP, 0, 49)
    came = on(3, BARRIER, 49, 50, 7)
    assert found_of(wait, late, came) == [
        Part("late thread", 39_000, LOOP, None, late.id, is_matched=True, by="thread 3")
    ]
    assert found_of(wait, came) == [Part("late thread", 39_000, by="thread 3")], "nothing else is on record"


def test_who_lost_as_much_is_waited_for_where_arrivals_are_not_known() -> None:
    wait, late = on(1, BARRIER, 10, 50, 7), on(3, LOOP, 0, 49)
    bystander, of_another_rank = on(2, LOOP, 60, 99), replace(on(5, LOOP, 0, 49), rank=1, id="0:1:1:1")
    (part,) = found_of(wait, late, bystander, of_another_rank)
    assert (part.call_id, part.is_matched, part.by) == (late.id, False, "thread 3")


def test_a_wait_for_nobody_is_not_explained_and_no_own_code() -> None:
    tracker = IncidentTracker()
    tracker.put([flag_of(on(1, BARRIER, 10, 50, 7))])
    (incident,) = tracker.update().incidents
    assert (incident.kind, incident.call_id) == ("not explained", "")
    assert sentence(incident) == (
        "a thread of rank 0 came 39 ms late to the barrier of solve:120; 1 thread waited 39 ms: 39 ms lost."
    )


def test_a_delay_of_a_thread_is_one_incident() -> None:
    records = [on(3, LOOP, 0, 49), *(on(thread, BARRIER, 9, 50, 7) for thread in (0, 1, 2))]
    records.append(on(3, BARRIER, 49, 50, 7))
    tracker = IncidentTracker()
    for one in records:
        tracker.put_communication(one)
    tracker.put(map(flag_of, records[:-1]))
    (incident,) = tracker.update().incidents
    assert (incident.thread, incident.function, {one.thread for one in incident.waited}) == (
        3,
        LOOP,
        {0, 1, 2},
    )
    assert sentence(incident) == (
        "thread 3 of rank 0 came 40 ms late to the barrier of solve:120; OpenMP loop solve on thread 3 of "
        "rank 0 took 49 ms, 49× its usual 1 ms; 3 threads waited 40 ms each: 168 ms lost."
    )


def test_waits_that_lead_nowhere_are_one_incident() -> None:
    tracker = IncidentTracker()
    tracker.put(flag_of(on(thread, BARRIER, 9, 50, 7)) for thread in (0, 1, 2))
    (incident,) = tracker.update().incidents
    assert len(incident.waited) == 3


def test_names_of_constructs() -> None:
    assert place_of_construct(BARRIER) == "solve:120"
    assert place_of_construct("OpenMP barrier app.c:120 [{/src/app.c} {120,0}]") == "app.c:120"
    assert short_name("OpenMP loop void A::solve<double>(int) [{a.cpp} {3,0}]") == "OpenMP loop A::solve"


def test_a_thread_that_is_slow_again_and_again() -> None:
    found = Recurrence(
        *(0, RecurrenceKind.LATE_THREADS, BARRIER, 200, 2e6, 0.0, 2e6, [BARRIER], [0], 1, 2, []),
        share=0.85,
        factor=1.4,
        by="thread 3",
    )
    assert recurrence_sentence(found) == (
        "Imbalance of threads: thread 3 of rank 0 takes 1.40 times as long as the others before the barrier "
        "of solve:120, in 85 % of 200 times: 2 s lost in all."
    )
