"""Incidents that have their origin in the node, and the sentences that say so."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.causes.part import LIMIT, Part
from chimbuko.monitor.sampling.nodebatch import NodeBatch
from tests.causes.flagged import flag
from tests.causes.nodes import batch, other, thread, ticks

STOPPED = flag("compute", 3, 0, 200)
WAITS = [flag("MPI_Allreduce()", rank, 2, 201) for rank in range(3)]
STANDING_STILL = batch(ticks(3, 0, 200, state=b"T", ran_us=0))


def incidents(flags: list[Flag], *samples: NodeBatch, late: bool = False) -> list[Incident]:
    tracker = IncidentTracker()
    found: dict[int, Incident] = {}
    for put in (lambda: [tracker.put_samples(one) for one in samples], lambda: tracker.put(flags))[
        :: -1 if late else 1
    ]:
        put()
        changes = tracker.update()
        found |= {one.number: one for one in changes.incidents}
        found = {n: one for n, one in found.items() if n not in {*changes.merged, *changes.gone}}
    return list(found.values())


@pytest.mark.parametrize("late", [False, True], ids=["samples first", "samples later"])
def test_ranks_waited_for_one_that_was_stopped(late: bool) -> None:
    (one,) = incidents([STOPPED, *WAITS], STANDING_STILL, late=late)
    assert (one.kind, one.rank, one.ranks) == ("stopped", 3, 4)
    assert sentence(one) == (
        "compute on rank 3 took 200 ms, 200× its usual 1 ms, as rank 3 stood still for 199 ms (stopped); "
        "ranks 0, 1 and 2 waited 198 ms each for it in MPI_Allreduce: 793 ms lost on 4 ranks together."
    )


def test_a_rank_that_was_stopped_in_a_collective_is_who_the_others_waited_for() -> None:
    inside = flag("MPI_Allreduce()", 3, 0, 202)
    (one,) = incidents([inside, *WAITS], STANDING_STILL)
    assert (one.kind, one.rank, len(one.waited)) == ("stopped", 3, 3)
    # Without samples nobody knows more than that all were in it.
    assert [one.kind for one in incidents([inside, *WAITS])] == ["slow operation"]


@pytest.mark.parametrize("late", [False, True], ids=["samples first", "samples later"])
def test_calls_that_lost_a_core_to_one_process_are_one_incident(late: bool) -> None:
    hit = [flag("compute", rank, begin, begin + 200) for rank in (1, 3) for begin in (0, 400, 800)]
    rows = [row for rank in (1, 3) for row in ticks(rank, 0, 1000, ran_us=2_000, waited_us=18_000, core=1)]
    later = flag("compute", 1, 9_000, 9_200)
    rows += ticks(1, 9_000, 9_200, ran_us=2_000, waited_us=18_000, core=1)
    # It is longer than it is usual for them.
    usual = batch([], periods=[thread(rank, -60_000, 0) for rank in (1, 3)], is_sum=True)
    first, second = sorted(
        incidents([*hit, later], usual, batch(rows, [other(-50, 9_500, 1, 9_000)]), late=late),
        key=lambda one: one.begin_us,
    )
    assert first.flags == 6 and second.flags == 1
    assert sentence(first).startswith("spinner (root, process 4711) took core 1 for ")
    assert ", which 6 calls on ranks 1 and 3 waited for: 1.19 s lost on 2 ranks together." in sentence(first)
    assert "as spinner (root, process 4711) took core 1 for 180 ms" in sentence(second)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Part("waited for core", 5e4), "as it waited 50 ms for its core, which somebody else had"),
        (Part("waited for core", 5e4, by="rank 2", core=0), "as rank 2 took core 0 for 50 ms"),
        (Part("waited for core", 5e4, by=LIMIT), f"as {LIMIT} kept it from running for 50 ms"),
        (Part("page faults", 5e4, count=40_000), "as 40,000 page faults took 50 ms"),
        (Part("memory pressure", 5e4, count=9), "as memory was short for 50 ms, with 9 pages read back"),
        (Part("migration", 5e4), "as it was moved from core to core all the time, which took 50 ms"),
        (Part("storage", 5e4), "as it waited 50 ms for storage"),
        (
            Part("GPU busy", 5e4, by="GPU 2", count=1),
            "as GPU 2 had more to do than usual for 50 ms, with 1 program of others on it",
        ),
        (
            Part("GPU throttled", 5e4, by="GPU 2"),
            "as GPU 2 was slowed down for 50 ms, for heat or by its power supply",
        ),
        (Part("network", 5e4), "as it waited 50 ms for a socket or a pipe"),
        (Part("held lock", 5e4, by="io"), "as it waited 50 ms for a lock, while its thread io ran"),
        (Part("system time", 5e4), "as its system calls took 50 ms"),
    ],
)
def test_each_cause_has_its_words(part: Part, words: str) -> None:
    (one,) = incidents([STOPPED])
    assert f", {words}" in sentence(msgspec.structs.replace(one, parts=[part]))


@pytest.mark.parametrize("first_ms", [499.0, 501.0], ids=["is free before it", "behind it"])
@pytest.mark.parametrize(
    ("kind", "did"),
    [
        ("stopped", {"state": b"T", "ran_us": 0}),
        ("waited for core", {"ran_us": 1_000, "waited_us": 19_000}),
    ],
)
def test_who_is_held_up_in_a_wait_for_those_that_wait_for_it_is_the_origin(
    kind: str, did: dict[str, object], first_ms: float
) -> None:
    held_up = flag("MPI_Waitall()", 0, 0, 500, received_from=[1])
    waits = flag("MPI_Waitall()", 1, 1, first_ms, received_from=[0])
    usual = batch([], periods=[thread(rank, -60_000, 0) for rank in (0, 1)], is_sum=True)
    (one,) = incidents([held_up, waits], usual, batch(ticks(0, 0, 500, **did)))
    assert (one.kind, one.rank, [wait.rank for wait in one.waited]) == (kind, 0, [1])


def test_all_ranks_may_be_stopped_at_once() -> None:
    flags = [flag("MPI_Waitall()", rank, rank, 300, received_from=[1 - rank]) for rank in (0, 1)]
    samples = batch([row for rank in (0, 1) for row in ticks(rank, 0, 300, state=b"T", ran_us=0)])
    (one,) = incidents(flags, samples)
    assert (one.kind, one.rank, [wait.rank for wait in one.waited]) == ("stopped", 0, [1])
    assert sentence(one) == (
        "both ranks stood still for 298 ms each (stopped), at the same time: 597 ms lost on 2 ranks together."
    )


def test_ranks_that_are_stopped_together_are_one_incident_and_one_after_the_other_two() -> None:
    def stop(rank: int, begin: int, end: int) -> list[np.void]:
        return ticks(rank, begin, end, state=b"T", ran_us=0)

    flags = [flag("compute", rank, 0, 300) for rank in (0, 1, 2)]
    waits = flag("MPI_Allreduce()", 3, 2, 301)
    together = batch([row for rank in (0, 1, 2) for row in stop(rank, 0, 300)])
    (one,) = incidents([*flags, waits], together)
    assert sentence(one) == (
        "ranks 0, 1 and 2 stood still for 299 ms each (stopped), at the same time; "
        "rank 3 waited 298 ms for it in MPI_Allreduce: 1.20 s lost on 4 ranks together."
    )
    # One was stopped when half of the other's time was over.
    apart = [flag("compute", 0, 0, 300), flag("compute", 1, 160, 460)]
    found = incidents(apart, batch([*stop(0, 0, 300), *stop(1, 160, 460)]))
    assert [(one.rank, one.is_of_all) for one in found] == [(0, False), (1, False)]
