"""Deltas are kept until the server has saved them, and sent again in order."""

from __future__ import annotations

import msgspec

from chimbuko.ad.modelsync.pendingdeltas import PendingDeltas, PendingRounds
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.runtime.protocol.messages import Acknowledgement, Delta


def delta(sequence: int, incarnation: int = 1) -> Delta:
    return Delta(
        "a", incarnation, sequence, sequence, {}, [], b"", PackedTable(0, b"", b"", b"", b""), [], []
    )


def test_the_next_delta_waits_until_the_last_one_is_merged() -> None:
    unsaved = PendingDeltas()
    assert not unsaved.is_waiting
    unsaved.add(delta(1))
    assert unsaved.is_waiting
    assert unsaved.acknowledge(Acknowledgement(1, 1, 0))
    assert not unsaved.is_waiting and len(unsaved) == 1
    assert unsaved.add(delta(2)).since == 1
    assert unsaved.is_waiting


def test_what_is_saved_is_forgotten() -> None:
    unsaved = PendingDeltas()
    for sequence in (1, 2, 3):
        unsaved.add(delta(sequence))
    assert unsaved.acknowledge(Acknowledgement(1, 3, 2))
    assert [one.sequence for one in unsaved.all()] == [3]


def test_a_server_that_has_forgotten_gets_all_that_it_may_need() -> None:
    unsaved = PendingDeltas()
    for sequence in (1, 2, 3, 4):
        unsaved.add(delta(sequence))
    assert unsaved.acknowledge(Acknowledgement(1, 4, 1))
    assert not unsaved.acknowledge(Acknowledgement(1, 2, 1))
    assert unsaved.is_waiting
    assert [(one.sequence, one.since) for one in unsaved.all()] == [(2, 2), (3, 2), (4, 2)]
    assert unsaved.acknowledge(Acknowledgement(1, 4, 4))
    assert not unsaved.is_waiting and len(unsaved) == 0


def test_what_a_predecessor_left_comes_first() -> None:
    unsaved = PendingDeltas([delta(7, incarnation=1)])
    assert unsaved.is_waiting
    assert [(one.incarnation, one.since) for one in unsaved.all()] == [(1, 7)]
    assert unsaved.acknowledge(Acknowledgement(1, 7, 5))
    assert not unsaved.is_waiting
    unsaved.add(delta(8, incarnation=2))
    assert unsaved.is_waiting
    assert [(one.incarnation, one.sequence, one.since) for one in unsaved.all()] == [(1, 7, 7), (2, 8, 7)]
    assert unsaved.acknowledge(Acknowledgement(2, 8, 0))
    assert len(unsaved) == 2 and not unsaved.is_waiting
    assert unsaved.acknowledge(Acknowledgement(2, 8, 8))
    assert len(unsaved) == 0


def test_what_is_kept_has_a_limit_and_room_again_once_it_is_saved() -> None:
    unsaved = PendingDeltas()
    large = PackedTable(0, bytes(1 << 20), b"", b"", b"")
    while not unsaved.is_full:
        unsaved.add(msgspec.structs.replace(delta(len(unsaved) + 1), table=large))
    assert len(unsaved) == 16
    unsaved.acknowledge(Acknowledgement(1, 16, 8))
    assert not unsaved.is_full


def test_each_part_contains_rounds_up_to_the_first_that_it_lacks() -> None:
    rounds = PendingRounds(2)
    for number, deltas in ((1, {0: delta(1), 1: delta(1)}), (2, {1: delta(2)}), (3, {0: delta(2)})):
        rounds.add(number, deltas)
    assert [rounds.contained_by(part) for part in (0, 1)] == [0, 0]
    rounds.contain(0, 1)
    # Of the second round there is nothing for this part.
    assert (rounds.contained_by(0), rounds.contained_by(1), rounds.contained) == (2, 0, 0)
    rounds.contain(1, 1)
    assert (rounds.contained_by(0), rounds.contained_by(1), rounds.contained) == (2, 1, 1)
    rounds.contain(0, 2)
    rounds.contain(1, 2)
    assert [rounds.contained_by(part) for part in (0, 1)] == [3, 3] and rounds.contained == 3
