"""What an agent reports of counters and of itself: seldom, but in the end all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimbuko.ad.agent.agenttelemetry import AgentTelemetry
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.calls.record import CounterStatistics, StepCount, StreamHealth
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.runtime.protocol.telemetry import TelemetryDelta


class Node:
    """An agent with one stream."""

    def __init__(self, folder: Path) -> None:
        self.statistics = AgentStatistics("agent-0", 1, PROFILE)
        name = StreamName("heat", 3, folder / "stream.bp")
        self.stream = StreamHandle(
            name, Transport.RECORDED, 0, "node1", folder / "0-3", AnalysisConfig(), PROFILE
        )
        self.view = AgentTelemetry("node1", os.getppid(), self.statistics, [self.stream])
        self.reported = TelemetryDelta()

    def note(self, state: str, values: int) -> list[float]:
        """The stream says that its counter has so many values; how many of them the agent reports."""
        self.stream.health = StreamHealth(0, 3, "node1", state, 1, 1, 1, 1, 0, 0, {})
        counter = CounterStatistics("bytes", *Moments.of([8.0] * values).row().tolist())
        self.view.note(self.stream, [StepCount(0, 3, 0, 1, 2, 5, 0, 0.0)], [counter])
        return [one.n for stream in self.delta().counters for one in stream.counters]

    def delta(self) -> TelemetryDelta:
        outgoing = self.statistics.next_round([], {})
        return TelemetryDelta() if outgoing is None else outgoing.deltas[0].telemetry


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_counters_are_reported_when_they_have_grown_by_a_tenth(node: Node) -> None:
    reported = [number for values in range(1, 201) for number in node.note("reading", values)]
    assert 25 < len(reported) < 45
    assert reported[-1] > 200 / 1.1


def test_the_end_of_a_stream_reports_all(node: Node) -> None:
    assert node.note("reading", 100) == [100]
    assert node.note("reading", 101) == []
    assert node.note("ended", 101) == [101]


def test_what_the_agent_takes_is_reported_now_and_then_and_at_the_end(node: Node) -> None:
    for is_last, is_reported in ((False, True), (False, False), (True, True), (True, False)):
        node.view.report(is_last)
        figures = node.delta().figures
        assert (figures is not None) == is_reported
        if figures is not None:
            assert (figures.node, figures.streams) == ("node1", 1)
            assert figures.pss_bytes > 10_000_000
            assert figures.cpu_s > 0
