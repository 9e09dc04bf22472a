"""What an agent reports of counters and of itself: seldom, but in the end all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from chimbuko.ad.agent.agenttelemetry import (
    MOST_LOADS,
    AgentTelemetry,
    Lag,
    Loads,
    cpu_s,
    memory_bytes,
    spool_bytes,
)
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


def health(steps: int, rows: int) -> list[StreamHealth]:
    return [StreamHealth(0, 0, "node1", "reading", steps, rows, 48 * rows, rows // 2, 0, 0, {})]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000)), max_size=100))
def test_there_are_few_and_they_are_everything(grown: list[tuple[int, int]]) -> None:
    loads, steps, rows = Loads(), 0, 0
    loads.add(0.0, 1.0, [])
    for number, (more_steps, more_rows) in enumerate(grown, start=1):
        steps, rows = steps + more_steps, rows + more_rows * (more_steps > 0)
        loads.add(float(number), 1.0 + number / 10, health(steps, rows))
    found = loads.intervals()
    assert len(found) <= MOST_LOADS
    assert (sum(one.steps for one in found), sum(one.rows for one in found)) == (steps, rows)
    assert sum(one.seconds for one in found) == sum(more > 0 for more, _ in grown)


def test_time_before_the_first_step_does_not_count() -> None:
    loads = Loads()
    loads.add(0.0, 1.5, [])
    loads.note_step(8.0, 20_000)
    loads.note_step(9.0, 40_000)
    loads.note_step(9.0, -7_000_000)
    loads.add(10.0, 1.7, health(2, 1000))
    (one,) = loads.intervals()
    assert (one.seconds, one.streams, one.steps, one.rows) == (2.0, 1, 2, 1000)
    assert (one.cpu_s, one.wait_s) == (approx(0.2), approx(0.03))


GONE = 1 << 30
"""Above the highest process id."""
BUSY = """
import sys, time
kept = b"x" * 40_000_000
while time.process_time() < 0.5:
    pass
print()
sys.stdin.read()
"""


@pytest.fixture
def busy_child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds 40 MB and has used half a second."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        yield child
        child.stdin.close()


def test_memory_and_cpu_time_of_processes_are_added_up(busy_child: subprocess.Popen) -> None:
    own, both = [os.getpid()], [os.getpid(), busy_child.pid, GONE]
    assert 40_000_000 < memory_bytes(both) - memory_bytes(own) < 120_000_000
    assert 0.45 < cpu_s(both) - cpu_s(own) < 5.0
    assert cpu_s(own) == pytest.approx(sum(os.times()[:4]), abs=0.2)
    assert memory_bytes([GONE]) == cpu_s([GONE]) == 0


def test_the_size_of_spools(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.spool").write_bytes(bytes(1000))
    assert spool_bytes([tmp_path / "a", tmp_path / "b", tmp_path / "not there"]) == 2000


def test_lag_is_what_a_stream_is_further_behind_than_it_ever_was_least() -> None:
    """The trace is of yesterday, and stops being read for 3 s."""
    lag = Lag()
    yesterday_us = int(time.time() * 1e6) - 86_400_000_000
    for at_s, now_s in ((1, 1.5), (2, 2.2), (3, 3.4)):
        lag.note("0:1", yesterday_us + at_s * 1_000_000, yesterday_us + int((86_400 + now_s) * 1e6))
    assert lag.take_s() == pytest.approx(0.2)
    lag.note("0:1", yesterday_us + 4_000_000, yesterday_us + int((86_400 + 7.2) * 1e6))
    lag.note("0:2", yesterday_us, yesterday_us + 86_410_000_000)
    assert lag.take_s() == pytest.approx(3.0)
    assert lag.take_s() == 0.0
