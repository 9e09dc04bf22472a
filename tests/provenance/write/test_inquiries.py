"""What agents are asked of delays: each once, the most costly first, and never too much."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import MOST_ASKED, Asked
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.provenance.write import inquiries
from chimbuko.provenance.write.inquiries import GIVEN_UP_S, WAITS_S, Inquiries, asked_by
from chimbuko.runtime.protocol.messages import WaitsRequest
from tests.causes.flagged import at, flag


class Asking:
    """A tracker, and what is asked because of what comes into it."""

    def __init__(self, ranks: int = 4) -> None:
        self.tracker = IncidentTracker()
        self.tracker.evidence.ranks[0] |= set(range(ranks))
        self.inquiries = Inquiries(self.tracker.evidence)

    def put(self, now_s: float, *flags: Flag, is_urgent: bool = False) -> list[WaitsRequest]:
        self.tracker.put(flags)
        self.inquiries.take(self.tracker.update(), now_s)
        return self.inquiries.due(now_s, is_urgent)


DELAY = flag("compute", 3, 0, 100)


def test_ranks_that_are_not_known_to_have_waited_are_asked_once_and_a_while_later() -> None:
    asking = Asking()
    assert asking.put(10.0, DELAY) == []
    assert asking.inquiries.is_waiting
    assert asking.put(10.5, flag("MPI_Recv()", 2, 5, 101, received_from=[3])) == []
    (request,) = asking.put(10.0 + WAITS_S)
    assert (request.program, request.begin_us, request.end_us) == (0, at(0), at(100))
    assert request.ranks == {0: 0, 1: 0}
    assert not asking.inquiries.is_waiting
    assert asking.put(20.0, flag("MPI_Recv()", 1, 5, 102, received_from=[3])) == []


def test_nobody_is_asked_where_all_are_known_or_the_delay_is_short() -> None:
    waits = [flag("MPI_Recv()", rank, 5, 101, received_from=[3]) for rank in range(3)]
    asking = Asking()
    assert asking.put(10.0, DELAY, *waits, is_urgent=True) == []
    assert asking.put(10.0, flag("compute", 1, 500, 509), is_urgent=True) == []
    assert not asking.inquiries.is_waiting


def test_where_the_delay_is_not_on_record_ranks_are_asked_for_what_they_lost_themselves() -> None:
    asking = Asking()
    first = flag("MPI_Recv()", 2, 5, 101, received_from=[3])
    assert asking.put(10.0, first, flag("MPI_Recv()", 1, 40, 240, received_from=[2])) == []
    (request,) = asking.put(10.0 + WAITS_S)
    # The first wait is meant, not the longest.
    assert (request.begin_us, request.end_us, request.ranks) == (at(5), at(101), {0: 0, 3: 0})
    assert request.least_own_us == first.excess_us / 2
    assert request.least_us == first.excess_us / 10
    assert asking.put(20.0, replace(DELAY, is_flagged=False)) == []
    assert asking.tracker.incident(first.id) is not None
    assert not asking.inquiries.is_waiting


def test_ranks_that_are_asked_who_waited_for_a_known_delay_need_not_say_what_they_lost() -> None:
    (request,) = Asking().put(10.0, DELAY, is_urgent=True)
    assert request.least_own_us == 0.0


def test_nobody_is_asked_where_all_had_come() -> None:
    together = [flag("MPI_Barrier()", rank, 5, 101) for rank in range(4)]
    asking = Asking(ranks=4)
    asking.tracker.evidence.ranks[0].add(4)
    assert asking.put(10.0, *together, is_urgent=True) != [], "one may be missing"
    asking = Asking(ranks=4)
    assert asking.put(10.0, *together, is_urgent=True) == []


def test_at_the_end_nothing_is_put_off() -> None:
    assert len(Asking().put(10.0, DELAY, is_urgent=True)) == 1


def test_the_most_costly_ones_go_first_and_what_finds_no_room_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inquiries, "RANKS_PER_S", 7.0)
    asking = Asking()
    delays = [flag("compute", 0, 1000 * n, 1000 * n + 20 * n) for n in range(1, 6)]
    first = asking.put(10.0, *delays, is_urgent=True)
    assert [request.begin_us for request in first] == [at(5000), at(4000)]
    then = asking.put(11.0)
    assert [request.begin_us for request in then] == [at(3000), at(2000)]
    monkeypatch.setattr(inquiries, "RANKS_PER_S", 0.0)
    assert asking.put(10.0 + GIVEN_UP_S) == []
    assert not asking.inquiries.is_waiting


def test_of_many_ranks_some_beside_are_asked_and_some_everywhere() -> None:
    asking = Asking(ranks=1024)
    (request,) = asking.put(10.0, flag("compute", 500, 0, 100), is_urgent=True)
    asked = asked_by([request])[1]
    assert (sorted(asked.near), len(request.ranks)) == (sorted({*range(492, 509)} - {500}), MOST_ASKED)
    # Neither a decomposition of which some planes are never asked, nor a node.
    assert len({rank // 64 for rank in asked.spread}) == 16
    assert len({rank % 8 for rank in asked.spread}) == 8


def test_who_has_not_answered_stands_for_nobody() -> None:
    (request,) = Asking(ranks=1000).put(10.0, DELAY, is_urgent=True)
    (asked,) = asked_by([request], {(0, 0), (0, 13), (0, 14)}).values()
    assert asked == Asked([0, 13, 14], [])


def test_each_rank_is_asked_by_its_own_clock() -> None:
    asking = Asking()
    asking.tracker.evidence.clocks.ahead_us = lambda program, rank, time_us: 5000.0 * rank  # type: ignore[method-assign]
    (request,) = asking.put(10.0, flag("compute", 1, 0, 100), is_urgent=True)
    assert request.begin_us == at(0) - 5000
    assert request.ranks == {0: 0, 2: 10_000, 3: 15_000}
