"""Ranks that more than one agent would read."""

from __future__ import annotations

from pathlib import Path

from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.rankclaims import agents_of, claim_ranks, newest_end_us, rivalries
from chimbuko.runtime.protocol.runbroker import RunBroker


def test_the_first_agent_has_a_rank_for_good(tmp_path: Path) -> None:
    heat, others = [("heat", 0)], [("heat", 1), ("other", 0)]
    with PrivateBroker(tmp_path / "broker.log") as broker:
        client = RunBroker.connect(broker.url, "run")
        assert claim_ranks(client, heat, "agent-a") == [True]
        assert claim_ranks(client, others, "agent-b") == [True, True]
        assert claim_ranks(client, heat, "agent-a") == [True]
        assert rivalries(client) == []
        assert claim_ranks(client, [*heat, *others], "agent-b") == [False, True, True]
        assert claim_ranks(client, heat, "agent-a") == [True]
        client.client.hset(client.keys.programs, mapping={"heat": 0, "other": 1})
        asked = [(0, 0), (1, 0), (1, 7), (2, 0)]
        assert agents_of(client, asked) == {(0, 0): "agent-a", (1, 0): "agent-b"}
        (line,) = rivalries(client)
        assert line.startswith("heat, rank 0,") and "agent-a" in line and "agent-b" in line
        client.client.close()


def test_the_newest_event_is_known_when_all_shares_are_read(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log") as broker:
        client = RunBroker.connect(broker.url, "run")
        assert newest_end_us(client, 0, 3, 5_000_000_000_000_000) is None
        assert newest_end_us(client, 2, 3, 0) is None
        # One that was killed comes again.
        assert newest_end_us(client, 0, 3, 5_000_000_000_000_000) is None
        assert newest_end_us(client, 1, 3, 7) == 5_000_000_000_000_000
        assert newest_end_us(client, 2, 3, 0) == 5_000_000_000_000_000
        client.client.close()
