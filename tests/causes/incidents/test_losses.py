"""What ranks lost by their node beside flagged calls, and how both are one incident."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.monitor.sampling.nodebatch import NodeBatch
from tests.causes.flagged import at, flag
from tests.causes.losses import loss, shared
from tests.causes.nodes import batch, names, other, thread, ticks


def incidents(*puts: NodeBatch | list[Flag]) -> list[Incident]:
    """Incidents of all that came, the same in whatever order it does."""
    orders = []
    for order in itertools.permutations(puts):
        tracker, found = IncidentTracker(), dict[int, Incident]()
        for put in order:
            if isinstance(put, list):
                tracker.put(put)
            else:
                tracker.put_samples(put)
            changes = tracker.update()
            found |= {one.number: one for one in changes.incidents}
            found = {n: one for n, one in found.items() if n not in {*changes.merged, *changes.gone}}
            assert not any(call_id.startswith("L") for call_id in changes.incident_of)
        orders.append(sorted(found.values(), key=lambda one: one.begin_us))
    texts = [[sentence(one) for one in order] for order in orders]
    assert texts == texts[:1] * len(texts)
    return orders[0]


def test_a_loss_of_which_no_call_was_flagged_is_an_incident() -> None:
    (one,) = incidents(shared(loss(1, 0, 2_000, 1_000)))
    assert sentence(one) == (
        "spinner (root, process 4711) took core 1 for 1 s of 2 s, which rank 1 waited for: 1 s lost."
    )
    assert (one.kind, one.rank, one.ranks, one.flags, one.call_id) == ("waited for core", 1, 1, 0, "")
    assert (one.begin_us, one.end_us) == (at(0), at(2_000)) and one.is_loss


def test_a_rank_that_was_stopped_in_calls_that_are_usual_is_who_the_others_waited_for() -> None:
    stop = batch(ticks(3, 0, 200, state=b"T", ran_us=0), losses=[loss(3, 0, 200, 200, True)])
    waits = [flag("MPI_Waitall()", rank, 2, 201, received_from=[3]) for rank in (0, 1)]
    (one,) = incidents(stop, waits)
    assert sentence(one) == (
        "rank 3 stood still for 200 ms (stopped); ranks 0 and 1 waited 198 ms each for it in MPI_Waitall: "
        "596 ms lost on 3 ranks together."
    )
    assert {(wait.rank, wait.for_call_id) for wait in one.waited} == {(0, ""), (1, "")}


def test_calls_that_were_flagged_in_a_loss_count_once() -> None:
    hit = [flag("compute", 1, begin, begin + 100, usual_ms=10) for begin in (200, 600)]
    (one,) = incidents(shared(loss(1, 0, 2_000, 1_000)), hit)
    assert one.is_loss and {wait.call_id for wait in one.waited} == {call.id for call in hit}
    assert one.cost_us == pytest.approx(1e6)
    assert sentence(one).startswith(
        "spinner (root, process 4711) took core 1 for 1 s of 2 s, which 2 abnormal calls on rank 1 waited for"
    )


def test_a_call_that_is_shorter_than_a_look_is_part_of_the_loss_around_it() -> None:
    rows = [*ticks(1, -200, 0, core=1), *ticks(1, 0, 2_000, ran_us=13_000, waited_us=7_000, core=1)]
    taken = batch(rows, [other(0, 2_000, 1, 700)], losses=[loss(1, 0, 2_000, 700)])
    calls = [flag("compute", 1, begin, begin + 6, usual_ms=1) for begin in (105, 405)]
    (one,) = incidents(taken, calls)
    assert one.is_loss and {wait.kind for wait in one.waited} == {"waited for core"}
    assert one.cost_us == 700_000
    # Without as long a wait in the looks it did something else.
    ran = [thread(1, 400, 420, ran_us=18_000, waited_us=2_000, core=1)]
    others = [row for row in rows if row["begin_us"] != at(400)]
    found = incidents(
        batch([*others, *ran], [other(0, 2_000, 1, 700)], losses=[loss(1, 0, 2_000, 700)]), calls
    )
    assert [(one.kind, one.call_id) for one in found[1:]] == [("own code", calls[1].id)]


def test_a_loss_that_lies_in_one_call_is_part_of_its_incident() -> None:
    stop = batch(ticks(3, 0, 200, state=b"T", ran_us=0), losses=[loss(3, 0, 200, 200, True)])
    call = flag("compute", 3, 0, 200)
    (one,) = incidents(stop, [call])
    assert one.call_id == call.id and not one.is_loss
    assert sentence(one) == (
        "compute on rank 3 took 200 ms, 200× its usual 1 ms, as rank 3 stood still for 199 ms (stopped): "
        "200 ms lost."
    )


def test_who_waits_for_others_loses_nothing_by_waiting_for_its_core_meanwhile() -> None:
    stop = batch(ticks(3, 0, 200, state=b"T", ran_us=0), losses=[loss(3, 0, 200, 200, True)])
    rows = [*ticks(1, 0, 40), *ticks(1, 40, 120, ran_us=0, waited_us=20_000), *ticks(1, 120, 200)]
    wait = flag("MPI_Waitall()", 1, 2, 201, received_from=[3])
    (one,) = incidents(stop, batch(rows, losses=[loss(1, 40, 120, 80)]), [wait])
    assert (one.rank, one.ranks, one.cost_us) == (3, 2, 200_000 + 198_000)


def test_a_wait_of_which_nobody_knows_for_whom_stays_one_though_its_rank_had_no_core_meanwhile() -> None:
    rows = [*ticks(1, 0, 40), *ticks(1, 40, 180, ran_us=0, waited_us=20_000), *ticks(1, 180, 200)]
    wait = flag("MPI_Waitall()", 1, 2, 201, received_from=[3])
    (one,) = incidents(batch(rows, losses=[loss(1, 40, 180, 140)]), [wait])
    assert not one.is_loss and one.losses and one.cost_us == 198_000
    assert sentence(one).startswith(
        "rank 1 waited 198 ms for rank 3, of which nothing is on record, in MPI_Waitall"
    )


def test_ranks_that_lost_a_core_to_the_same_process_have_one_incident() -> None:
    (one,) = incidents(shared(loss(1, 0, 1_000, 500), loss(3, 1_000, 2_000, 500)))
    assert (one.ranks, one.cost_us) == (2, 1e6)
    assert "took core 1 for 1 s, which ranks 1 and 3 waited for" in sentence(one)


def test_who_takes_the_core_of_one_rank_makes_ranks_share_the_other() -> None:
    there = [msgspec.structs.replace(one, cpus="0-1") for one in names()]
    rows = [row for rank in (0, 2) for row in ticks(rank, 0, 1_000, ran_us=10_000, waited_us=10_000, core=0)]
    losses = [loss(rank, 0, 1_000, 500) for rank in (0, 2)]
    (one,) = incidents(batch(rows, [other(0, 1_000, 1, 950)], names=there, losses=losses))
    assert "spinner (root, process 4711) took core 1 for 1 s, which ranks 0 and 2 waited for" in sentence(one)
    # So do several together.
    thieves = [
        other(0, 1_000, 1, 300),
        other(0, 1_000, 1, 250, "other"),
        other(0, 1_000, 1, 10, "chimbuko.ad.age"),
    ]
    (one,) = incidents(batch(rows, thieves, names=there, losses=losses))
    assert "spinner (root, process 4711) took core 1" in sentence(one)
    # It has to have run for long enough.
    found = incidents(batch(rows, [other(0, 1_000, 1, 400)], names=there, losses=losses))
    assert [one.parts[0].by for one in found] == ["rank 2", "rank 0"]


def test_what_the_analysis_itself_takes_is_an_incident_only_where_calls_are_abnormal() -> None:
    ours = "chimbuko.proven"
    assert incidents(shared(loss(1, 0, 2_000, 1_000), by=ours)) == []
    hit = [flag("compute", 1, begin, begin + 100, usual_ms=10) for begin in (200, 600)]
    (one,) = incidents(shared(loss(1, 0, 2_000, 1_000), by=ours), hit)
    assert sentence(one) == (
        "the analysis itself took core 1 for 1 s of 2 s, which 2 abnormal calls on rank 1 waited for: "
        "1 s lost."
    )
    wait = replace(flag("MPI_Waitall()", 0, 100, 600, received_from=[1]), is_flagged=False)
    assert incidents(shared(loss(1, 0, 2_000, 1_000), by=ours), [wait]) == []
    (one,) = incidents(shared(loss(1, 0, 2_000, 1_000), by=ours), hit, [wait])
    assert "rank 0 waited" in sentence(one)
    # It is known only later that it was not somebody else.
    tracker = IncidentTracker()
    tracker.put_samples(batch(ticks(1, 0, 100, core=1), losses=[loss(1, 0, 2_000, 1_000)]))
    assert len(tracker.update().incidents) == 1
    tracker.put_samples(shared(loss(1, 0, 2_000, 1_001), by=ours))
    assert tracker.update().gone == [1]


def test_several_who_take_a_core_together_are_named_by_the_first() -> None:
    rows = [*ticks(1, -200, 0, core=1), *ticks(1, 0, 1_000, ran_us=7_000, waited_us=13_000, core=1)]
    thieves = [other(0, 1_000, 1, 250, "thiefB"), other(0, 1_000, 1, 255, "thiefA")]
    (one,) = incidents(batch(rows, thieves, losses=[loss(1, 0, 1_000, 650)]))
    assert one.parts[0].by == "thiefA (root, process 4711) and others"
    (one,) = incidents(batch(rows, thieves[:1], losses=[loss(1, 0, 1_000, 650)]))
    assert one.parts[0].by == ""


def test_ranks_that_wait_for_each_other_in_a_loss_lost_all_of_it() -> None:
    waits = [
        replace(flag("MPI_Waitall()", 3, begin, begin + 600, received_from=[1]), is_flagged=False)
        for begin in (100, 900)
    ]
    (one,) = incidents(shared(loss(1, 0, 2_000, 1_000), loss(3, 0, 2_000, 1_000)), waits)
    assert {lost.rank: lost.beyond_us for lost in one.losses} == {1: 1e6, 3: 0}
    assert "took core 1 for 2 s, which ranks 1 and 3 waited for; rank 3 waited" in sentence(one)


def test_who_takes_a_core_beside_the_analysis_is_named() -> None:
    rows = [*ticks(1, -200, 0, core=1), *ticks(1, 0, 1_000, ran_us=7_000, waited_us=13_000, core=1)]
    ours = [other(0, 1_000, 1, 200, f"chimbuko.{name}") for name in ("ad.age", "proven")]
    for thief_ms, by in ((300, "thief (root, process 4711)"), (200, "the analysis itself")):
        taken = batch(rows, [*ours, other(0, 1_000, 1, thief_ms, "thief")], losses=[loss(1, 0, 1_000, 650)])
        tracker = IncidentTracker()
        tracker.put_samples(taken)
        tracker.update()
        assert [part.by for parts in tracker.parts.values() for part in parts] == [by]


def test_a_loss_that_goes_on_is_the_same_incident() -> None:
    tracker = IncidentTracker()
    for end_ms in (500, 1_000, 2_000):
        tracker.put_samples(shared(loss(1, 0, end_ms, end_ms / 2)))
        (one,) = tracker.update().incidents
        assert (one.number, one.cost_us) == (1, 500.0 * end_ms)
    # Found anew it keeps its number.
    again = IncidentTracker(9, {one.losses[0].id: 1})
    again.put_samples(shared(loss(1, 0, 2_000, 1_000)))
    assert [found.number for found in again.update().incidents] == [1]


def test_all_ranks_that_are_stopped_at_once_are_said_to_be_also_where_no_call_was_flagged() -> None:
    rows = [row for rank in range(4) for row in ticks(rank, 0, 500, state=b"T", ran_us=0)]
    stops = batch(rows, losses=[loss(rank, rank, 500 + rank, 500, True) for rank in range(4)])
    (one,) = incidents(stops)
    assert one.is_of_all and sentence(one) == (
        "all 4 ranks stood still for 500 ms each (stopped), at the same time: 2 s lost on 4 ranks together."
    )


def test_what_a_limit_takes_is_no_core_that_somebody_took() -> None:
    rows = [*ticks(1, -200, 0), *ticks(1, 0, 2_000, ran_us=10_000, waited_us=10_000)]
    state = (at(0), 2_000_000, 0, 0, 0, 0, 0, 1_000_000, 0, 0)
    limited = batch(rows, states=[state], losses=[loss(1, 0, 2_000, 1_000)])
    hit = [flag("compute", 1, begin, begin + 100, usual_ms=10) for begin in (200, 600)]
    (one,) = incidents(limited, hit)
    assert sentence(one) == (
        "the CPU limit of its control group kept rank 1 from running for 1 s of 2 s, with 2 abnormal calls: "
        "1 s lost."
    )


def test_a_stop_lasted_as_long_as_the_call_that_it_was_in_lost_by_it() -> None:
    rows = [row for rank in (0, 1) for row in ticks(rank, 0, 500, state=b"T", ran_us=0)]
    stops = batch(rows, losses=[loss(rank, 0, 520, 520, True) for rank in (0, 1)])
    calls = [flag("compute", rank, 0, 501) for rank in (0, 1)]
    (one,) = incidents(stops, calls)
    assert sentence(one).startswith("both ranks stood still for 500 ms each (stopped), at the same time: ")
