"""Ranks that more than one agent would read."""

from __future__ import annotations

from pathlib import Path

from chimbuko.protocol.broker import PrivateBroker
from chimbuko.protocol.rankclaims import claim_rank, rivalries
from chimbuko.protocol.runbroker import RunBroker


def test_the_first_agent_has_a_rank_for_good(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log") as broker:
        client = RunBroker.connect(broker.url, "run")
        assert claim_rank(client, "heat", 0, "agent-a")
        assert claim_rank(client, "heat", 1, "agent-b")
        assert claim_rank(client, "other", 0, "agent-b")
        assert claim_rank(client, "heat", 0, "agent-a")
        assert rivalries(client) == []
        assert not claim_rank(client, "heat", 0, "agent-b")
        assert claim_rank(client, "heat", 0, "agent-a")
        (line,) = rivalries(client)
        assert line.startswith("heat, rank 0,") and "agent-a" in line and "agent-b" in line
        client.client.close()
