"""What an agent that was killed has learned is found in its folder, with the same numbers each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.deltamaker import DeltaMaker, agents_in, left_deltas
from chimbuko.ad.streams.deltalog import LOG_FILES, LOG_NAME, DeltaLog
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.errors import ServiceError
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.protocol.messages import Delta
from tests.ad.modelsync.test_modelsync import CALLS, CONFIG, Stream


def begin(folder: Path, incarnation: int) -> tuple[DeltaMaker, StreamHandle]:
    """An agent in its folder, with one stream."""
    name = StreamName("app", 0, folder / "app.bp")
    handle = StreamHandle(name, Transport.SST, 0, "node", folder / "0-0", CONFIG, PROFILE)
    statistics = AgentStatistics(folder.name, incarnation, PROFILE)
    maker = DeltaMaker(statistics, DeltaLog(folder / LOG_NAME), 1.0, is_lockstep=False)
    maker.let_inherit(handle)
    return maker, handle


def calls_in(*deltas: Delta) -> int:
    """That a server counts, the first one of the function included."""
    state = ServerState()
    for delta in deltas:
        state.apply(delta)
    statistics = state.statistics(is_last=True)
    return sum(function.calls for function in statistics.functions) if statistics else 0


def test_all_that_an_agent_has_learned_is_left_once(tmp_path: Path) -> None:
    folder = tmp_path / "agent-0"
    maker, handle = begin(folder, incarnation=5)
    stream = Stream(handle)
    for _ in range(2):
        stream.step()
        # The server has not answered when the second one is made.
        assert len(maker.make([handle], is_flushing=True)) == 1
    stream.step()
    assert agents_in(tmp_path) == [folder]
    left = left_deltas(folder, CONFIG)[0]
    assert [(delta.agent, delta.sequence, len(delta.steps)) for delta in left] == [
        ("agent-0", number, 1) for number in (1, 2, 3)
    ]
    assert left_deltas(folder, CONFIG)[0] == left
    assert calls_in(*left) == calls_in(*left, *left) == 1 + 3 * CALLS
    # An agent that goes on there has nothing that is not among them.
    successor, handle = begin(folder, incarnation=9)
    assert successor.make([handle], is_flushing=True) == {}
    assert calls_in(*left, *successor.pending.all()[0]) == 1 + 3 * CALLS


def test_what_was_copied_from_a_node_is_what_had_been_left_by_then(tmp_path: Path) -> None:
    folder, copy = tmp_path / "agent-0", tmp_path / "rescued" / "agent-0"
    maker, handle = begin(folder, incarnation=5)
    stream = Stream(handle)
    stream.step()
    maker.make([handle], is_flushing=True)
    copy.mkdir(parents=True)
    for path in folder.glob(LOG_FILES):
        (copy / path.name).write_bytes(path.read_bytes())
    stream.step()
    maker.make([handle], is_flushing=True)
    copied, left = left_deltas(copy, CONFIG)[0], left_deltas(folder, CONFIG)[0]
    assert calls_in(*copied) == 1 + CALLS
    assert calls_in(*copied, *left) == calls_in(*left) == 1 + 2 * CALLS


def test_an_agent_at_work_is_left_alone(tmp_path: Path) -> None:
    maker, handle = begin(tmp_path / "agent-0", incarnation=5)
    Stream(handle).step()
    maker.make([handle], is_flushing=True)
    with hold(str(tmp_path / "agent-0")), pytest.raises(ServiceError, match="another process is at work"):
        left_deltas(tmp_path / "agent-0", CONFIG)
