"""The sentence that says what happened."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Asked, Incident
from chimbuko.causes.incidents.sentence import recurrence_sentence, sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.causes.wording import Bound, ranks_in_words
from tests.causes.flagged import flag


def told(*flags: object) -> list[str]:
    tracker = IncidentTracker()
    tracker.put(flags)  # type: ignore[arg-type]
    return [sentence(incident) for incident in tracker.update().incidents]


def test_who_was_late_who_waited_and_what_it_cost() -> None:
    waits = [
        flag(
            "MPI Collective Sync", rank, 25, 273, usual_ms=2,
            inside=[(f"0:{rank}:0:5", "MPI_Allreduce()")],
        )
        for rank in (1, 2, 3)
    ]  # fmt: skip
    assert told(flag("checkpoint [{heat.c} {3,0}]", 0, 0, 275, usual_ms=23), *waits) == [
        "checkpoint on rank 0 took 275 ms, 12× its usual 23 ms; ranks 1, 2 and 3 waited 246 ms each for it "
        "in MPI_Allreduce: 990 ms lost on 4 ranks together."
    ]


def test_a_late_launch_is_named() -> None:
    newton = flag("MD_NEWTON", 7, 0, 310, usual_ms=60, children=[("MD_FORCES", 250, 300)])
    assert told(newton) == [
        "MD_NEWTON on rank 7 spent 260 ms in its own code, 4.3× its usual 60 ms, 200 ms of it "
        "before it called MD_FORCES: 200 ms lost."
    ]


def test_what_a_long_call_lost_itself_is_told_with_the_calls_around_it() -> None:
    def of(*between: str) -> list[str]:
        one = flag("main", 2, 0, 150, usual_ms=1, children=[("MPI_Init", 0, 0)])
        return told(replace(one, between=between))

    lost = ", 150× its usual 1 ms: 149 ms lost."
    assert of("MPI_Waitall()", "MPI_Irecv()") == [
        f"main on rank 2 spent 150 ms in its own code between MPI_Waitall and MPI_Irecv{lost}"
    ]
    assert of("work") == [f"main on rank 2 spent 150 ms in its own code before it called work{lost}"]
    assert of("work", "work") == [
        f"main on rank 2 spent 150 ms in its own code between two calls of work{lost}"
    ]


def test_waits_for_nobody_on_record() -> None:
    assert told(flag("MPI_Recv()", 1, 0, 51, received_from=[2])) == [
        "rank 1 waited 50 ms for rank 2, of which nothing is on record, in MPI_Recv: 50 ms lost."
    ]
    assert told(flag("MPI_Barrier()", 0, 0, 51), flag("MPI_Barrier()", 1, 10, 51)) == [
        "ranks 0 and 1 waited 40 ms to 50 ms in MPI_Barrier: 90 ms lost on 2 ranks together."
    ]


def waited_of(ranks: int, asked: Asked) -> Incident:
    """A delay of 99 ms, for which two of so many ranks are known to have waited as long."""
    late = flag("compute", 0, 0, 100)
    waits = [
        replace(flag("MPI_Recv()", rank, 0, 101, received_from=[0]), is_flagged=False) for rank in (1, 20)
    ]
    tracker = IncidentTracker()
    tracker.evidence.ranks[0] |= set(range(ranks))
    tracker.put([late, *waits])
    tracker.update()
    tracker.note_asked({1: asked})
    tracker.update()
    incident = tracker.incident(late.id)
    assert incident is not None
    return incident


def test_where_not_all_were_asked_the_waits_are_the_least() -> None:
    few, many = (sentence(waited_of(ranks, Asked())) for ranks in (67, 68))
    assert few.endswith("in MPI_Recv: 299 ms lost on 3 ranks together.")
    assert many.endswith("in MPI_Recv: at least 299 ms lost on 3 ranks together.")


def test_what_ranks_lost_that_were_not_asked_is_estimated_from_those_that_stand_for_them() -> None:
    incident = waited_of(1001, Asked([*range(1, 17)], [*range(20, 30)]))
    # A tenth of those 974 others waited, as rank 20 did; rank 1 stands for nobody.
    assert (incident.bound, incident.estimated_ranks, incident.ranks) == (Bound.ESTIMATED, 97, 100)
    assert incident.estimated_us == 974 * 100_000 / 10
    assert sentence(incident).endswith(
        "at least ranks 1 and 20 waited 100 ms each for it in MPI_Recv: "
        "≈ 10 s lost on ≈ 100 ranks together, estimated from 26 of 1,001 ranks."
    )


def test_few_that_have_answered_tell_nothing_of_the_others() -> None:
    assert waited_of(1001, Asked([*range(1, 17)], [*range(20, 27)])).bound is Bound.LEAST


def test_many_ranks_are_ranges() -> None:
    assert ranks_in_words([4]) == "rank 4"
    assert ranks_in_words([2, 1]) == "ranks 1 and 2"
    assert ranks_in_words([*range(512), 600]) == "513 ranks (0-511, 600)"
    assert ranks_in_words(range(0, 40, 2)) == "20 ranks (0, 2, 4, 6, 8, 10, ...)"


def test_more_calls_are_named() -> None:
    def solve(begin_ms: float, calls: int) -> Flag:
        sweeps = [("sweep", begin_ms + n, begin_ms + n + 0.5) for n in range(calls)]
        return flag("solve", 1, begin_ms, begin_ms + calls, children=sweeps, is_inclusive=True, usual_ms=5)

    tracker = IncidentTracker()
    tracker.evidence.put_ordinary(solve(0, 5))
    tracker.put([solve(100, 100)])
    (incident,) = tracker.update().incidents
    assert sentence(incident) == (
        "solve on rank 1 took 100 ms, 20× its usual 5 ms, as it called sweep more often: 95 ms lost."
    )


def test_a_counter_is_named() -> None:
    tracker = IncidentTracker()
    tracker.evidence.put_ordinary(flag("relax", 1, 0, 1, metrics=[("PAPI_L3_TCM", 10)]))
    tracker.put([flag("relax", 1, 50, 100, metrics=[("PAPI_L3_TCM", 400)])])
    (incident,) = tracker.update().incidents
    assert sentence(incident) == (
        "relax on rank 1 took 50 ms, 50× its usual 1 ms, as PAPI_L3_TCM rose by 40× as much as usual: "
        "49 ms lost."
    )


def test_drift_and_slow_ranks() -> None:
    usual = Recurrence(
        *(
            0,
            RecurrenceKind.DRIFT,
            "relax() [{heat.c} {4,0}]",
            23_996,
            8.17e6,
            0.0,
            500.0,
            ["relax()"],
            [],
            0,
            1,
            [],
        ),
        typical_us=2000.0,
        usual_us=1500.0,
        factor=1.333,
    )
    assert recurrence_sentence(usual) == (
        "relax became slower: a call takes 2 ms instead of 1.50 ms at first (1.33×), 23,996 calls in all: "
        "8.17 s lost in all."
    )
    slow = msgspec.structs.replace(
        usual, kind=RecurrenceKind.SLOW_RANKS, functions=[], ranks=[4, 5], node="n7"
    )
    assert recurrence_sentence(slow) == (
        "Ranks 4 and 5 on node n7 take 1.33 times as long as other ranks all the time, "
        "in all that they compute: 8.17 s lost in all."
    )
    since = msgspec.structs.replace(usual, calls=22_000, share=22_000 / 23_996, ranks=[2])
    assert ", since call 1,997 of 23,996, on rank 2: " in recurrence_sentence(since)
    uneven = msgspec.structs.replace(slow, functions=["relax()"], ranks=[4], node="")
    assert recurrence_sentence(uneven).startswith(
        "Imbalance: relax takes 2 ms on rank 4, 1.33 times the 1.50 ms on the other ranks: "
    )
    one = msgspec.structs.replace(uneven, usual_us=0.0)
    assert recurrence_sentence(one).startswith(
        "Rank 4 takes 1.33 times as long as other ranks all the time, in relax: "
    )
