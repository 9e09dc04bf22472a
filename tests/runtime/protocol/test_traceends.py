"""When recorded streams end that several agents read."""

from __future__ import annotations

from pathlib import Path

from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.rankclaims import newest_end_us
from chimbuko.runtime.protocol.runbroker import RunBroker


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
