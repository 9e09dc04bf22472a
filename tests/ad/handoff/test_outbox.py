"""Telemetry of one stream between its process and its agent: they never grow with time."""

from __future__ import annotations

import mmap

import numpy as np

from chimbuko.ad.analysis.streamtelemetry import MOST_ROWS, StreamTelemetry
from chimbuko.ad.handoff.outbox import TelemetryOutbox
from chimbuko.runtime.protocol.telemetry import PACE, TRAFFIC


def views_of(by_destination: dict[int, int], windows: range = range(0)) -> StreamTelemetry:
    traffic = [(2, 3, to, count, 8 * count) for to, count in by_destination.items()]
    paces = [(2, 3, window, 1, 10, 100.0) for window in windows]
    return StreamTelemetry(np.array(traffic, TRAFFIC), np.array(paces, PACE))


def new_outbox() -> tuple[TelemetryOutbox, TelemetryOutbox]:
    """Both ends of it; it does not begin where its file does."""
    memory = mmap.mmap(-1, 64 + TelemetryOutbox.SIZE_BYTES)
    return TelemetryOutbox(memory, 64), TelemetryOutbox(memory, 64)


def test_traffic_is_what_was_put_last_until_it_is_taken() -> None:
    stream, agent = new_outbox()
    for count in (1, 3, 2):
        put = views_of(dict.fromkeys(range(count), count))
        stream.put(put)
        assert agent.look().traffic.tolist() == put.traffic.tolist()
    agent.clear()
    assert not agent.look()


def test_of_paces_the_newest_are_kept() -> None:
    stream, agent = new_outbox()
    for window in range(MOST_ROWS + 7):
        stream.put(views_of({}, range(window, window + 1)))
    assert agent.look().paces["window"].tolist() == list(range(7, MOST_ROWS + 7))
    agent.clear()
    assert not agent.look()
