"""Short delays that hit now one function and now another."""

from __future__ import annotations

import msgspec
import pytest

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.interruptions import Interruptions, because, is_among, lost_by
from chimbuko.causes.incidents.sentence import recurrence_sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.causes.kinds.heldup import WAITED_FOR_CORE
from chimbuko.causes.part import LIMIT, Part
from chimbuko.causes.recurrence import Recurrence
from tests.causes.flagged import flag
from tests.causes.nodes import batch, names, thread

FUNCTIONS = ("pack", "unpack", "relax", "exchange")


def found_in(flags: list[Flag], at_once: int = 1000) -> tuple[list[Incident], list[Recurrence]]:
    """All incidents, and the recurrences; the calls come some at a time, and what is over is settled."""
    tracker, short = IncidentTracker(), Interruptions()
    known: dict[int, Incident] = {}
    for first in range(0, len(flags), at_once):
        tracker.put(flags[first : first + at_once])
        changes = tracker.update()
        short.take(changes)
        known |= {one.number: one for one in changes.incidents}
        short.settle_before(flags[first].entry_us - 1_000_000)
    return list(known.values()), short.found()


def short(count: int, functions: tuple[str, ...] = FUNCTIONS) -> list[Flag]:
    return [
        flag(functions[n % len(functions)], n % 3, 100 * n, 100 * n + 5 + n % 3, row=n + 1)
        for n in range(count)
    ]


def test_many_short_delays_of_many_functions_are_one_finding() -> None:
    flags = [*short(40), flag("checkpoint", 0, 9000, 9250), flag("compute", 1, 9500, 9600)]
    incidents, (found,) = found_in(flags)
    assert found_in(flags, at_once=7)[1] == [found]
    assert (found.calls, found.longest_us, found.ranks) == (40, 8192, [0, 1, 2])
    assert set(found.functions) == set(FUNCTIONS)
    alone = [incident.function for incident in incidents if not is_among(incident, found)]
    assert alone == ["checkpoint", "compute"]
    assert found.cost_us + sum(one.cost_us for one in incidents if not is_among(one, found)) == pytest.approx(
        sum(one.cost_us for one in incidents)
    )


def test_the_costliest_delay_is_shown_as_what_it_is() -> None:
    incidents, (found,) = found_in(short(40))
    (alone,) = [one for one in incidents if not is_among(one, found)]
    assert alone.cost_us == max(one.cost_us for one in incidents)
    assert (found.calls, found.costliest) == (39, alone.call_id)
    assert found.cost_us + alone.cost_us == pytest.approx(sum(one.cost_us for one in incidents))


def test_few_of_them_or_those_of_one_function_are_incidents() -> None:
    for flags in (short(12), short(40, ("relax",))):
        assert found_in(flags)[1] == []


@pytest.mark.parametrize("longer_ms", [[60] * 5, [12, 12, 25, 25, 50, 50, 50]])
def test_few_delays_that_are_much_longer_are_incidents_whatever_lies_between(longer_ms: list[int]) -> None:
    """With 11 short ones they are 16, and nobody would be shown what lost most."""
    long = [flag(f"load{n % 2}", 0, 9000 + 500 * n, 9000 + 500 * n + ms) for n, ms in enumerate(longer_ms)]
    for count in (11, 40):
        incidents, found = found_in([*short(count), *long])
        assert [one.calls >= 39 for one in found] == [True] * (count == 40)
        longest = [one for one in incidents if one.cost_us > 40_000]
        assert longest and not any(is_among(one, among) for one in longest for among in found)


def test_delays_that_people_notice_are_incidents_however_many() -> None:
    """As in a program of 8 s with 20 sleeps of 150 ms in three functions."""
    flags = [flag(FUNCTIONS[n % 3], 0, 400 * n, 400 * n + 150.8, usual_ms=0.8) for n in range(20)]
    assert found_in(flags)[1] == []


def test_delays_in_a_programs_own_code_are_incidents_where_samples_say_so() -> None:
    tracker = IncidentTracker()
    few = Interruptions(tracker.evidence.nodes)
    tracker.put_samples(batch([thread(n % 3, 100 * n, 100 * n + 8) for n in range(40)]))
    tracker.put(short(40))
    changes = tracker.update()
    assert {one.kind for one in changes.incidents} == {"own code"}
    few.take(changes)
    assert few.found() == []


def test_a_delay_that_held_up_others_is_an_incident_however_short() -> None:
    late, wait = flag("relax", 1, 9000, 9006), flag("MPI_Recv()", 0, 9001, 9007, received_from=[1])
    incidents, found = found_in([*short(40), late, wait])
    assert [one.call_id for one in incidents if not any(is_among(one, among) for among in found)] == [late.id]


def test_what_turned_out_to_be_ordinary_still_says_how_long_such_delays_are() -> None:
    """Else the few that are left would be incidents."""
    tracker, few = IncidentTracker(), Interruptions()
    long = [flag(f"tile{n}", 0, 9000 + 500 * n, 9060 + 500 * n) for n in range(12)]
    tracker.put([*short(12), *long])
    changes = tracker.update()
    few.take(changes)
    assert few.found() == []
    for _ in range(12):
        few.acquit(0, 5000.0)
    (found,) = few.found()
    assert (found.calls, found.longest_us) == (12, 8192)


@pytest.mark.parametrize(
    ("lost", "by", "ranks"),
    [
        ({"": 70, "spin": 30}, "", 3),
        ({"": 10, "spin": 60, "make": 30}, "spin", 0),
        ({"": 10, "spin": 45, "make": 25, "tar": 20}, "spin and others", 0),
        ({"": 10, "spin and others": 45, "make": 25, "tar": 20}, "spin and others", 0),
        ({"": 10, LIMIT: 90}, LIMIT, 0),
    ],
)
def test_ranks_that_share_cores_are_no_cause_where_others_took_these(
    lost: dict[str, int], by: str, ranks: int
) -> None:
    tracker, few = IncidentTracker(), Interruptions()
    there = [msgspec.structs.replace(one, cpus="0-1") for one in names(3)]
    tracker.put_samples(batch([thread(rank, -60_000, 0) for rank in range(3)], names=there))
    tracker.put(short(40))
    few.take(tracker.update())
    (found,) = few.found()
    parts = [
        Part(WAITED_FOR_CORE.id, us, by=name, is_foreign=name not in ("", LIMIT)) for name, us in lost.items()
    ]
    told = because(found, lost_by(parts), tracker.evidence.nodes)
    assert (told.cause, told.by, told.ranks_there) == (WAITED_FOR_CORE.id, by, ranks)
    said = f"{by} kept them from running" if by == LIMIT else f"{by} took their cores"
    shared = "they waited for their cores (3 ranks share 2 cores)"
    assert f", as {said if by else shared}: " in recurrence_sentence(told)


@pytest.mark.parametrize(
    ("cpus", "words"),
    [
        ("0-1", "as they waited for their cores (3 ranks share 2 cores)"),
        ("0-3", "as they waited for their cores"),
    ],
)
def test_what_of_the_node_such_delays_are_by(cpus: str, words: str) -> None:
    tracker = IncidentTracker()
    few = Interruptions(tracker.evidence.nodes)
    there = [msgspec.structs.replace(one, cpus=cpus) for one in names(3)]
    tracker.put_samples(batch([], periods=[thread(rank, -60_000, 0) for rank in range(3)], is_sum=True))
    waited = [thread(n % 3, 100 * n, 100 * n + 8, ran_us=1000, waited_us=7000) for n in range(40)]
    tracker.put_samples(batch(waited, names=there))
    tracker.put(short(40))
    few.take(tracker.update())
    (found,) = few.found()
    assert (found.cause, found.by) == ("waited for core", "")
    assert f" on ranks 0, 1 and 2, {words}: " in recurrence_sentence(found)
    # Settled or not, and whatever is known of the node.
    few.settle_before(1 << 62)
    assert few.found() == [found]
