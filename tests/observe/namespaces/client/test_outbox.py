"""Publications that wait: in order, within a limit, and put together where they are many."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.observe.namespaces.client import outbox
from chimbuko.observe.namespaces.client.outbox import MOST_LEAVES, Letter, LetterQueue, Mode, Pending
from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.exchange.leaves import as_leaf
from chimbuko.observe.namespaces.exchange.tree import Change, Tree, apply
from chimbuko.observe.namespaces.exchange.wire import Publication

SHARDS = [Shard("s", "j", "application", number) for number in range(2)]


def letter(number: int, shard: int = 0, size: int = 1000) -> Letter:
    put = {("step",): as_leaf(number), ("field",): as_leaf(np.full(size // 8, number))}
    change = Change(put, {("log",): as_leaf([number])})
    return Letter(SHARDS[shard], Publication("c", 0, number, number, 1, change))


def test_letters_leave_in_the_order_in_which_they_came() -> None:
    letters = LetterQueue()
    for number in range(1, 6):
        assert letters.add(letter(number))
    assert [one.publication.sequence for one in letters.take(2)] == [1, 2]
    assert [one.publication.sequence for one in letters.take(9)] == [3, 4, 5]
    assert len(letters) == 0 and letters.size_bytes == 0


def test_where_many_wait_they_become_few_that_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "COMPACT_BYTES", 20_000)
    letters = LetterQueue()
    trees = [Tree(), Tree()]
    for number in range(1, 201):
        one = letter(number, number % 2)
        apply(trees[number % 2], one.publication.change)
        assert letters.add(one)
        assert letters.size_bytes < 25_000
    taken = letters.take(1000)
    assert len(taken) < 30
    for shard, tree in enumerate(trees):
        mine = [one.publication for one in taken if one.shard == SHARDS[shard]]
        assert sum(publication.commits for publication in mine) == 100
        assert [one.sequence for one in mine] == sorted({one.sequence for one in mine})
        assert mine[-1].sequence == 199 + (shard == 0)
        again = Tree()
        for publication in mine:
            apply(again, publication.change)
        assert again == tree


def test_what_has_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_BYTES", 2_500)
    letters = LetterQueue()
    assert [letters.add(letter(number)) for number in (1, 2, 3)] == [True, True, False]
    assert len(letters) == 2


def test_a_client_remembers_a_limited_number_of_values() -> None:
    pending = Pending()
    for number in range(MOST_LEAVES + 2):
        pending.update((f"leaf{number}",), number, Mode.OVERWRITE)
    pending.commit()
    assert len(pending.taken()[0].put) == MOST_LEAVES + 2
    for number in (0, 5):
        pending.update((f"leaf{number}",), number, Mode.OVERWRITE)
    pending.commit()
    # The one that was forgotten counts as new.
    assert list(pending.taken()[0].put) == [("leaf0",)]


def test_an_overwrite_after_an_append_is_always_a_change() -> None:
    pending = Pending()
    for mode in (Mode.OVERWRITE, Mode.APPEND, Mode.OVERWRITE):
        pending.update(("a",), 1, mode)
        pending.commit()
    change, commits = pending.taken()
    assert (change.put, change.appended, commits) == ({("a",): 1}, {}, 3)
