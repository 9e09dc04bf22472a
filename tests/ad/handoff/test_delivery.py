"""Delivery of a spool: nothing is lost, whatever is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolWriter
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.calls.recordarrays import pack
from tests.sample_records import make_record

HEALTH = StreamHealth(0, 1, "node1", "reading", 1, 10, 480, 5, 1, 0, {})

actions = st.lists(st.sampled_from(("write", "send", "arrive", "lose")), max_size=30)


@settings(max_examples=40, deadline=None)
@given(actions, st.integers(1, 20_000))
def test_every_frame_arrives_in_order_whatever_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], room: int
) -> None:
    folder = tmp_path_factory.mktemp("delivery") / "spool"
    writer, delivery = SpoolWriter(folder, "0:1", 1 << 24), SpoolDelivery("0:1", folder)
    written = arrived = 0
    on_the_way: list[int] = []

    def send() -> None:
        on_the_way.extend(sequence for sequence, _ in delivery.take(room))

    def arrive() -> None:
        nonlocal arrived
        if on_the_way:
            first = on_the_way.pop(0)
            assert first <= arrived + 1, "a frame was skipped"
            arrived = max(arrived, first)
            delivery.arrived(arrived)

    for step in steps:
        if step == "write":
            writer.append(SpoolFrame(pack([make_record(written)]), [], [], HEALTH))
            written += 1
        elif step == "send":
            send()
        elif step == "arrive":
            arrive()
        else:
            on_the_way.clear()
            delivery.send_again()
        assert delivery.is_waiting == (delivery.in_flight_bytes > 0)
    for _ in range(2 * written + 1):
        send()
        arrive()
    assert delivery.is_delivered
    assert (arrived, delivery.acknowledged) == (written, written)
    assert delivery.in_flight_bytes == 0


def test_little_room_is_enough_to_go_on_after_a_loss(tmp_path: Path) -> None:
    """What the store has already takes none of it, however much of it stands before the rest."""
    writer, delivery = SpoolWriter(tmp_path, "0:1", 1 << 24), SpoolDelivery("0:1", tmp_path)
    for number in range(5):
        writer.append(SpoolFrame(pack([make_record(number)]), [], [], HEALTH))
    assert len(delivery.take(1 << 20)) == 5
    delivery.arrived(3)
    delivery.send_again()
    assert [[sequence for sequence, _ in delivery.take(1)] for _ in range(3)] == [[4], [5], []]
    delivery.arrived(5)
    assert delivery.is_delivered
    delivery.send_again()
    assert delivery.is_delivered and delivery.take(1) == []
