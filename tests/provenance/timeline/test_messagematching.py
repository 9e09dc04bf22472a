"""Sends find their receives, where both were recorded."""

from __future__ import annotations

from chimbuko.core.calls.record import Message
from chimbuko.provenance.timeline.ranktimeline import MessagePoint, matched

WITHIN_US = 1_000


def send(time_us: int, source: int = 0, destination: int = 1, tag: int = 7, program: int = 0) -> MessagePoint:
    return MessagePoint(program, source, 0, Message("SEND", source, destination, tag, 64, time_us, ""))


def receive(
    time_us: int, source: int = 0, destination: int = 1, tag: int = 7, program: int = 0
) -> MessagePoint:
    return MessagePoint(program, destination, 0, Message("RECV", source, destination, tag, 64, time_us, ""))


def times(points: list[MessagePoint]) -> list[tuple[int, int]]:
    return [(sent.message.time_us, got.message.time_us) for sent, got in matched(points, WITHIN_US)]


def test_each_send_goes_to_the_first_receive_after_it() -> None:
    points = [send(10), receive(15), send(20), receive(26), send(30), receive(30)]
    assert times(points) == [(10, 15), (20, 26), (30, 30)]
    assert times(points[::-1]) == [(10, 15), (20, 26), (30, 30)]


def test_what_lacks_its_other_end_is_left_alone() -> None:
    assert times([send(10), send(20), receive(25)]) == [(20, 25)]
    assert times([receive(5), send(10), receive(25), receive(40)]) == [(10, 25)]
    assert times([send(10), receive(10 + WITHIN_US + 1)]) == []
    assert times([send(10)]) == times([receive(10)]) == []


def test_only_like_goes_to_like() -> None:
    others = [receive(15, tag=8), receive(15, program=1), receive(15, destination=2), receive(15, source=3)]
    assert times([send(10), *others]) == []
    assert times([send(10), *others, receive(18)]) == [(10, 18)]
