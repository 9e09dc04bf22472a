"""How much a shard keeps, without a broker."""

from __future__ import annotations

import numpy as np

from chimbuko.observe.namespaces.exchange.leaves import as_leaf
from chimbuko.observe.namespaces.exchange.shardstate import Entry, ShardState
from chimbuko.observe.namespaces.exchange.tree import Change
from chimbuko.observe.namespaces.exchange.wire import Publication, encode
from chimbuko.observe.namespaces.service.heldshard import ENTRY_BYTES, MOST_CLIENTS, READERS_MS, Retention


def entry(moment_ms: int, number: int, client: str = "c", **values: object) -> Entry:
    put = {(key,): as_leaf(value) for key, value in values.items()}
    return b"%d-0" % moment_ms, encode(Publication(client, 0, number, moment_ms * 1000, 1, Change(put, {})))


def test_the_log_is_cut_to_its_size_but_for_what_somebody_may_just_be_reading() -> None:
    state = ShardState()
    entries = [entry(1000 * second, second, a=np.zeros(100)) for second in range(1, 101)]
    size = len(entries[0][1]) + ENTRY_BYTES
    retention = Retention(20 * size, state)
    assert retention.first_kept() is None
    retention.note_entries(entries[:20])
    assert retention.first_kept() is None
    retention.note_entries(entries[20:])
    assert retention.first_kept() == b"81000-0"
    tight = Retention(1, state)
    tight.note_entries(entries)
    assert tight.first_kept() == b"%d-0" % (100_000 - READERS_MS)
    assert tight.first_kept() is None


def test_the_leaves_that_changed_last_are_kept() -> None:
    state = ShardState()
    retention = Retention(10 * (ENTRY_BYTES + 850), state)
    for number in range(1, 31):
        name = f"leaf{number % 15}"
        retention.forget(state.take([entry(number, number, **{name: np.full(100, number)}, steady=1)]))
    names = [path[0] for path, _ in state.tree]
    fields = names[:-2] + names[-1:] if names[-2] == "steady" else names[:-1]
    assert len(names) - len(fields) == 1 and 8 <= len(fields) <= 11
    assert sorted(fields) == sorted(f"leaf{number % 15}" for number in range(31 - len(fields), 31))
    assert state.reading.counts.forgotten > 0
    assert set(state.times_us) == {path for path, _ in state.tree}


def test_what_is_kept_is_the_same_state_again() -> None:
    state = ShardState()
    kept: dict[bytes, bytes] = {}
    retention = Retention(5_000, state)
    for number in range(1, 60):
        values = {f"leaf{number % 7}": np.full(number, 1.0), "group" if number % 2 else "other": number}
        taken = state.take([entry(number, number, f"client{number % 3}", **values)])
        retention.forget(taken)
        new, gone = state.changed_fields(taken)
        kept.update(new)
        for name in gone:
            kept.pop(name, None)
        again = ShardState.of(kept)
        assert again.tree == state.tree
        assert again.times_us == state.times_us
        assert again.reading.clients == state.reading.clients
        assert again.reading.counts == state.reading.counts
        # What was taken before is taken no more.
        before = again.reading.counts.publications
        again.take([entry(number + 1, number, f"client{number % 3}", **values)])
        assert again.reading.counts.publications == before


def test_clients_are_forgotten_in_the_order_in_which_they_published_last() -> None:
    state = ShardState()
    state.reading.clients = {f"old{number}": 1 for number in range(MOST_CLIENTS)}
    taken = state.take([entry(1, 1, "new", a=1)])
    Retention(1 << 20, state).forget(taken)
    assert len(state.reading.clients) == MOST_CLIENTS
    assert "old0" not in state.reading.clients and "new" in state.reading.clients
    _, gone = state.changed_fields(taken)
    assert gone == [b"\0old0"]
