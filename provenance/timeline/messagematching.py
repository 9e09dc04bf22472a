"""Finds which recorded receive belongs to which recorded send."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from chimbuko.provenance.timeline.ranktimeline import MessagePoint

Pair = tuple[MessagePoint, MessagePoint]
"""Send and receive."""


def matched(points: Iterable[MessagePoint], within_us: int) -> Iterator[Pair]:
    """Sends with their receives, as far as both were recorded.

    A message has no number in a trace. The two ends agree in program, source, destination, tag and size; of
    several the receive is the first after the send, and the send the last before the receive. Since most
    messages are not recorded, those that lie further apart than ``within_us`` are not taken for a pair.
    """
    sends: dict[tuple[int, ...], list[MessagePoint]] = {}
    receives: dict[tuple[int, ...], list[MessagePoint]] = {}
    for point in points:
        ends = sends if point.message.kind == "SEND" else receives
        ends.setdefault(_key(point), []).append(point)
    for key, sent in sends.items():
        yield from _nearest(sorted(sent, key=_time), sorted(receives.get(key, []), key=_time), within_us)


def _nearest(sent: list[MessagePoint], received: list[MessagePoint], within_us: int) -> Iterator[Pair]:
    for send in sent:
        first = bisect_left(received, _time(send), key=_time)
        if first == len(received):
            return
        receive = received[first]
        last = bisect_right(sent, _time(receive), key=_time) - 1
        if sent[last] is send and _time(receive) - _time(send) <= within_us:
            yield send, receive


def _time(point: MessagePoint) -> int:
    return point.message.time_us


def _key(point: MessagePoint) -> tuple[int, ...]:
    message = point.message
    return point.program, message.source, message.destination, message.tag, message.size_bytes
