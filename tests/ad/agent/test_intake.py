"""How an agent takes in the streams of its node, also where the broker is away in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from chimbuko.ad.agent.intake import Intake
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.processspecs import AgentSpec
from chimbuko.ad.handoff.shortage import ShortageNotices
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.deltalog import DeltaLog
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.follow.instances import aside_of
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.runbroker import RunBroker

APP = "tau-metrics-app-0.bp"
MOST_COMMANDS = 40


class InterruptedBroker(redis.Redis):
    """A connection that is lost with one command, or with commands that go out together."""

    commands = 0
    lost_command = -1

    def execute_command(self, *words: Any, **options: Any) -> Any:
        self._send_one()
        return super().execute_command(*words, **options)

    def pipeline(self, *words: Any, **options: Any) -> Any:
        self._send_one()
        return super().pipeline(*words, **options)

    def _send_one(self) -> None:
        self.commands += 1
        if self.commands - 1 == self.lost_command:
            raise redis.ConnectionError("the broker is away")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InterruptedBroker]:
    private = PrivateBroker(tmp_path / "broker.log")
    private.start()
    yield InterruptedBroker.from_url(private.keeper_url)
    private.stop()


def open_files(folder: Path) -> None:
    """A program begins to write."""
    (folder / APP).mkdir(exist_ok=True)
    (folder / APP / "md.idx").write_bytes(b"")


def intake_of(tmp_path: Path, broker: RunBroker, streams: list[StreamHandle]) -> Intake:
    config = AnalysisConfig()
    live, scratch = tmp_path / "live", tmp_path / "run" / "agents" / "agent-0"
    live.mkdir(exist_ok=True)
    scratch.mkdir(parents=True, exist_ok=True)
    spec = AgentSpec("agent-0", "run", 0, 1, "node", str(scratch), config, live_folder=str(live))
    statistics = AgentStatistics(spec.agent, 1, make_detector(config).schema)
    link = ModelSync(
        broker, statistics, streams, AgentNotifier(), DeltaLog(scratch / "last-delta"), 1.0, False
    )
    return Intake(spec, broker, streams, link, ShortageNotices(broker, tmp_path, "node"))


def test_both_instances_of_a_program_are_taken_in_wherever_the_broker_is_away(
    tmp_path: Path, broker: InterruptedBroker
) -> None:
    for lost_command in range(MOST_COMMANDS):
        broker.flushall()
        folder = tmp_path / str(lost_command)
        folder.mkdir()
        streams: list[StreamHandle] = []
        intake = intake_of(folder, RunBroker(broker, "run"), streams)
        broker.commands, broker.lost_command = 0, lost_command
        live = folder / "live"
        open_files(live)
        for _ in range(2):
            streams += intake.new_streams()
        (live / APP).rename(aside_of(live / APP, 0))
        (live / APP).mkdir()
        streams += intake.new_streams()
        open_files(live)
        for _ in range(2):
            streams += intake.new_streams()
        assert [one.program for one in streams] == [0, 0], lost_command
        # A rank that was claimed when the broker went away is left out: nobody may have it a second time.
        assert [one.name.rank for one in streams] in ([0, 1], [0, 2]), lost_command
        if lost_command >= broker.commands:
            return
    pytest.fail(f"more than {MOST_COMMANDS} commands for two streams")


def test_streams_that_begin_together_take_two_round_trips(tmp_path: Path, broker: InterruptedBroker) -> None:
    """However many there are: over SST their first steps pass meanwhile."""
    ranks = 40
    intake = intake_of(tmp_path, RunBroker(broker, "run"), [])
    for rank in range(ranks):
        stream = tmp_path / "live" / f"tau-metrics-app-{rank}.bp"
        stream.mkdir()
        (stream / "md.idx").write_bytes(b"")
    broker.commands = 0
    assert sorted(stream.name.rank for stream in intake.new_streams()) == list(range(ranks))
    assert broker.commands == 2
