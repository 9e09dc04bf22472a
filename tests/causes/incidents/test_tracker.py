"""Incidents: one for each delay, the same in whatever order its flags come."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import Flag, flag_of
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.pauses import Pause
from tests.causes.flagged import at, flag
from tests.causes.stories import by_another_clock, delays_at_collectives, delays_of_neighbours

DELAY = flag("compute", 3, 0, 100)
FIRST = flag("MPI_Recv()", 2, 5, 101, received_from=[3])
SECOND = flag("MPI_Waitall()", 1, 8, 104, received_from=[2])
THIRD = flag("MPI_Recv()", 0, 12, 108, received_from=[1])
CHAIN = [DELAY, FIRST, SECOND, THIRD]


def book_of(flags: list[Flag]) -> IncidentTracker:
    tracker = IncidentTracker()
    tracker.put(flags)
    return tracker


def test_a_chain_over_four_ranks_leads_to_its_origin() -> None:
    (incident,) = book_of(CHAIN).update().incidents
    assert (incident.rank, incident.function, incident.call_id) == (3, "compute", DELAY.id)
    assert incident.kind == "own code"
    assert incident.cost_us == sum(one.excess_us for one in CHAIN)
    assert {one.call_id: one.for_call_id for one in incident.waited} == {
        FIRST.id: DELAY.id,
        SECOND.id: FIRST.id,
        THIRD.id: SECOND.id,
    }
    assert (incident.begin_us, incident.end_us) == (at(0), at(108))
    assert (incident.flags, incident.ranks) == (4, 4)


@pytest.mark.parametrize("apart_ms", [-5, 5])
def test_clocks_of_half_of_the_ranks_may_be_apart(apart_ms: float) -> None:
    shifted = [
        DELAY,
        flag("MPI_Recv()", 2, 5 + apart_ms, 101 + apart_ms, received_from=[3]),
        flag("MPI_Waitall()", 1, 8 + apart_ms, 104 + apart_ms, received_from=[2]),
        THIRD,
    ]
    (incident,) = book_of(shifted).update().incidents
    assert (incident.call_id, incident.flags) == (DELAY.id, 4)


def test_who_waits_for_a_rank_that_waits_for_its_gpu_leads_to_what_ran_there() -> None:
    kernel = flag("stencil", 3, 0, 100, is_gpu=True, row=7)
    host = flag("cudaDeviceSynchronize", 3, 2, 101)
    wait = flag("MPI_Recv()", 2, 5, 103, received_from=[3])
    (incident,) = book_of([kernel, host, wait]).update().incidents
    assert (incident.call_id, incident.kind) == (kernel.id, "own code")
    assert {one.call_id: one.kind for one in incident.waited} == {
        host.id: "waited for GPU",
        wait.id: "late sender",
    }
    # Core time is lost by those who wait.
    assert incident.cost_us == host.excess_us + wait.excess_us
    (alone,) = book_of([kernel]).update().incidents
    assert alone.cost_us == kernel.excess_us


def origins_of(records: list[CallRecord], at_once: int) -> dict[str, str]:
    """Origin of the incident of each call, where calls come so many at once."""
    tracker = IncidentTracker()
    incidents: dict[int, Incident] = {}
    for first in range(0, len(records), at_once):
        for one in records[first : first + at_once]:
            tracker.put_communication(one)
        tracker.put(map(flag_of, records[first : first + at_once]))
        changes = tracker.update()
        incidents = {n: one for n, one in incidents.items() if n not in changes.merged}
        incidents |= {one.number: one for one in changes.incidents}
    return {call: incidents[number].call_id for call, number in tracker.incident_of.items()}


@pytest.mark.parametrize("lead_ms", [-5, 5, -40, 40, -90, 90])
@pytest.mark.parametrize("at_once", [20, 1_000])
@pytest.mark.parametrize("story", [delays_of_neighbours, delays_at_collectives])
def test_clocks_that_are_apart_and_drift_give_the_same_incidents(
    lead_ms: float, at_once: int, story: Callable[[], list[CallRecord]]
) -> None:
    records = story()
    expected = origins_of(records, at_once)
    assert len(set(expected.values())) == 40
    shifted = [one if one.rank < 2 else by_another_clock(one, 1000 * lead_ms, 1e-4) for one in records]
    assert origins_of(shifted, at_once) == expected


def test_flags_may_come_in_any_order_one_by_one() -> None:
    for order in itertools.permutations(CHAIN):
        tracker, owner = IncidentTracker(), {}
        known = {}
        for one in order:
            tracker.put([one])
            changes = tracker.update()
            known |= {incident.number: incident for incident in changes.incidents}
            for number in (*changes.merged, *changes.gone):
                known.pop(number, None)
            owner |= changes.incident_of
        (incident,) = known.values()
        assert incident.call_id == DELAY.id
        assert set(owner.values()) == {incident.number}


def test_an_incident_that_turns_out_to_be_part_of_another_leads_on_to_the_older_one() -> None:
    waits = [flag("MPI_Recv()", 1, 0, 100), flag("MPI_Recv()", 2, 55, 230)]
    tracker = book_of(waits[:1])
    assert [one.number for one in tracker.update().incidents] == [1]
    tracker.put(waits[1:])
    assert [one.number for one in tracker.update().incidents] == [2]
    tracker.put([DELAY])
    changes = tracker.update()
    assert changes.merged == {2: 1}
    assert [(one.number, one.call_id) for one in changes.incidents] == [(1, DELAY.id)]
    assert tracker.update().incidents == []


def test_numbers_that_calls_have_already_are_kept() -> None:
    tracker = IncidentTracker(first=8, known={FIRST.id: 5, THIRD.id: 7})
    tracker.put([*CHAIN, flag("other", 3, 900, 950)])
    changes = tracker.update()
    assert changes.merged == {7: 5}
    assert sorted(one.number for one in changes.incidents) == [5, 8]


def test_a_newer_revision_of_a_call_takes_the_place_of_the_older_one() -> None:
    tracker = book_of([flag("compute", 3, 0, 60, row=1)])
    tracker.update()
    tracker.put([flag("compute", 3, 0, 100, row=1)])
    (incident,) = tracker.update().incidents
    assert (incident.number, incident.runtime_us) == (1, 100_000)


def test_waits_of_which_nobody_knows_for_whom_are_one_incident_without_an_origin() -> None:
    waits = [flag("MPI_Barrier()", rank, rank, 100) for rank in (0, 1, 3)]
    (incident,) = book_of(waits).update().incidents
    assert (incident.call_id, incident.function, incident.flags) == ("", "", 3)
    assert incident.rank is None
    tracker = book_of([*waits, flag("elsewhere", 2, 900, 950)])
    # The one rank that does not wait is the one that is waited for.
    assert tracker.update().incidents[0].rank == 2


def test_two_delays_at_once_are_two_incidents_each_with_its_waits() -> None:
    flags = [
        flag("compute", 0, 0, 100),
        flag("MPI_Recv()", 1, 5, 101, received_from=[0]),
        flag("compute", 2, 0, 100),
        flag("MPI_Recv()", 3, 5, 101, received_from=[2]),
    ]
    incidents = book_of(flags).update().incidents
    assert [(one.rank, [wait.rank for wait in one.waited]) for one in incidents] == [(0, [1]), (2, [3])]


@given(st.permutations(range(12)))
def test_incidents_do_not_depend_on_the_order_of_arrival(order: list[int]) -> None:
    flags = [
        *CHAIN,
        *(flag("compute", 0, 300 + 50 * n, 320 + 50 * n, row=50 + n) for n in range(4)),
        *(flag("MPI_Barrier()", 1, 301 + 50 * n, 321 + 50 * n, row=60 + n) for n in range(4)),
    ]
    tracker = IncidentTracker()
    for at_once in (order[:5], order[5:6], order[6:]):
        tracker.put([flags[number] for number in at_once])
        tracker.update()
    parts = {call_id: sorted(map(str, of_call)) for call_id, of_call in tracker.parts.items()}
    direct = book_of(flags)
    direct.update()
    assert parts == {call_id: sorted(map(str, of_call)) for call_id, of_call in direct.parts.items()}
    assert grouped(tracker) == grouped(direct)


def grouped(tracker: IncidentTracker) -> set[frozenset[str]]:
    members: dict[int, set[str]] = {}
    for call_id, number in tracker.incident_of.items():
        members.setdefault(number, set()).add(call_id)
    return {frozenset(of_one) for of_one in members.values()}


def unflagged(one: Flag) -> Flag:
    """The same call, judged to be ordinary."""
    return replace(one, is_flagged=False)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_waits_that_were_not_flagged_belong_to_the_delay_that_they_lead_to(order: tuple[int, ...]) -> None:
    calls = [DELAY, unflagged(FIRST), SECOND, unflagged(THIRD)]
    tracker = IncidentTracker()
    incidents: dict[int, Incident] = {}
    for at_once in order:
        tracker.put([calls[at_once]])
        changes = tracker.update()
        incidents = {n: one for n, one in incidents.items() if n not in {*changes.merged, *changes.gone}}
        incidents |= {one.number: one for one in changes.incidents}
    (incident,) = incidents.values()
    assert (incident.call_id, incident.flags, incident.ranks) == (DELAY.id, 2, 4)
    assert incident.cost_us == sum(one.excess_us for one in CHAIN)
    assert {one.call_id: one.is_flagged for one in incident.waited} == {
        FIRST.id: False,
        SECOND.id: True,
        THIRD.id: False,
    }
    assert set(tracker.incident_of.values()) == {incident.number}


def test_waits_that_were_not_flagged_are_no_incident_and_are_forgotten() -> None:
    tracker = book_of([unflagged(FIRST), unflagged(THIRD), flag("compute", 3, 1000, 1100)])
    (incident,) = tracker.update().incidents
    assert (incident.flags, incident.waited) == (1, [])
    assert tracker.incident_of.keys() == {incident.call_id}
    tracker.forget_before(at(900))
    assert tracker.evidence.flags.keys() == {incident.call_id}


LOST = unflagged(DELAY)


def one_by_one(calls: Iterable[Flag]) -> tuple[IncidentTracker, dict[int, Incident]]:
    tracker = IncidentTracker()
    incidents: dict[int, Incident] = {}
    for one in calls:
        tracker.put([one])
        changes = tracker.update()
        incidents = {n: one for n, one in incidents.items() if n not in {*changes.merged, *changes.gone}}
        incidents |= {one.number: one for one in changes.incidents}
    return tracker, incidents


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_delay_that_was_not_flagged_is_the_origin_of_flagged_waits(order: tuple[int, ...]) -> None:
    calls = [LOST, FIRST, unflagged(SECOND), THIRD]
    tracker, incidents = one_by_one(calls[number] for number in order)
    (incident,) = incidents.values()
    assert (incident.rank, incident.function, incident.call_id) == (3, "compute", DELAY.id)
    assert (incident.is_flagged, incident.flags, incident.ranks) == (False, 2, 4)
    assert incident.kind == "own code"
    assert incident.cost_us == sum(one.excess_us for one in CHAIN)
    assert set(tracker.incident_of.values()) == {incident.number}


def test_waits_that_led_to_it_before_belong_to_an_origin_that_was_not_flagged() -> None:
    later = unflagged(flag("MPI_Recv()", 1, 40, 140, received_from=[2]))
    latest = unflagged(flag("MPI_Recv()", 0, 110, 210, received_from=[1]))
    flagged = flag("MPI_Recv()", 4, 6, 102, received_from=[3])
    _, incidents = one_by_one([LOST, unflagged(FIRST), later, latest, flagged])
    (incident,) = incidents.values()
    assert (incident.call_id, incident.flags) == (DELAY.id, 1)
    assert {one.rank for one in incident.waited} == {0, 1, 2, 4}


def test_the_one_rank_that_does_not_wait_in_a_collective_is_the_origin_by_what_it_lost() -> None:
    waits = [flag("MPI_Barrier()", rank, rank, 101) for rank in range(3)]
    (incident,) = book_of([*waits, LOST]).update().incidents
    assert (incident.call_id, incident.flags, incident.ranks) == (DELAY.id, 3, 4)


@pytest.mark.parametrize(
    "other",
    [
        flag("compute", 1, 0, 100),
        flag("compute", 3, 0, 45),
        flag("compute", 3, 60, 100),
        flag("compute", 3, 0, 150),
        flag("compute", 3, 0, 101, children=[("MPI_Recv()", 1, 100)]),
    ],
    ids=["of another rank", "too short", "too late", "not over", "in calls inside it"],
)
def test_what_did_not_hold_up_a_wait_is_no_origin(other: Flag) -> None:
    (incident,) = book_of([unflagged(other), FIRST]).update().incidents
    assert (incident.rank, incident.call_id, incident.function, incident.flags) == (3, "", "", 1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_rank_that_waited_itself_is_not_said_to_have_nothing_on_record(order: tuple[int, ...]) -> None:
    calls = [unflagged(FIRST), SECOND, THIRD]
    _, incidents = one_by_one(calls[number] for number in order)
    (incident,) = incidents.values()
    assert (incident.rank, incident.call_id, incident.flags) == (3, "", 2)
    assert {one.rank: one.for_call_id for one in incident.waited} == {2: "", 1: FIRST.id, 0: SECOND.id}


def test_a_delay_that_was_not_flagged_is_no_incident_without_a_flagged_wait() -> None:
    tracker = book_of([LOST, unflagged(FIRST)])
    assert (tracker.update().incidents, tracker.incident_of) == ([], {})
    tracker.put([flag("compute", 1, 2, 99)])
    (incident,) = tracker.update().incidents
    assert (incident.rank, incident.waited) == (1, [])


def test_who_is_flagged_stays_so_whatever_is_found_of_it_later() -> None:
    tracker = book_of([DELAY, FIRST])
    tracker.update()
    tracker.put([replace(unflagged(FIRST), excess_us=1.0)])
    assert tracker.update().incidents == []
    assert tracker.evidence.flags[FIRST.id] == FIRST


def held_up(thread: int, begin_ms: float, end_ms: float, by: str = "server.handle") -> Flag:
    waited_us = round(1000 * (min(end_ms, 310) - max(begin_ms, 10)))
    counters = [(Pause.LOOP.counter(by), waited_us)]
    one = flag("await sleep in server.handle", 0, begin_ms, end_ms, row=thread, counters=counters)
    return replace(one, thread=thread)


def test_tasks_that_wait_for_their_event_loop_are_one_delay_which_costs_their_thread_once() -> None:
    waits = [held_up(2, 5, 312), held_up(3, 8, 314), held_up(4, 9, 311)]
    later = held_up(2, 9, 311, by="server.flush")
    (incident, other) = book_of([*waits, replace(later, id="0:0:1:99")]).update().incidents
    assert (incident.kind, incident.flags, other.flags) == ("waited for event loop", 3, 1)
    assert incident.cost_us == max(one.excess_us for one in waits)
    held = "server.handle kept the event loop of rank 0 for 300 ms, for which 3 tasks waited"
    assert sentence(incident).startswith(held)


def test_a_task_that_awaits_spends_its_time_in_no_code_of_its_own() -> None:
    (incident,) = book_of([flag("await sleep in server.handle", 0, 5, 312)]).update().incidents
    assert incident.kind == "not explained"
