"""An agent's exchange with a real broker and server, through its deaths and theirs."""

from __future__ import annotations

import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
import numpy as np
import pytest
import redis

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.handoff.exchange import Cell, ExchangeBox, Outbox
from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.deltalog import DeltaLog
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.messages import PAYLOAD, RunStatistics, Seal
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.patience import PATIENCE_S

CONFIG = AnalysisConfig(detector="sstd", min_anomaly_us=0)
NAMES = StreamNames(timers={0: "main", 1: "solve"})
CALLS = 10


@pytest.fixture
def lockstep_streams() -> int:
    return 0


@pytest.fixture
def server(broker: PrivateBroker, tmp_path: Path, lockstep_streams: int) -> Iterator[Service]:
    arguments = ["--run-id", "run", "--detector", "sstd", "--state", str(tmp_path / "state")]
    arguments += ["--lockstep-streams", str(lockstep_streams)]
    service = Service("pserver", "chimbuko.pserver", arguments, {BROKER_VARIABLE: broker.url}, tmp_path)
    service.wait_ready()
    yield service
    assert service.stop(20.0)


class Stream:
    """A stream's process, as far as the exchange goes; or the one that goes on for it."""

    def __init__(self, agent_stream: StreamHandle, before: Stream | None = None) -> None:
        spec = agent_stream.next_attempt()
        NamesFile(Path(spec.names)).save(NAMES)
        agent_stream.box[Cell.NAMES_VERSION] += 1
        self.box = ExchangeBox(Path(spec.box), PROFILE, spec.program, spec.rank)
        self.analysis = StreamAnalysis(StreamIdentity(spec.program, spec.rank, ""), CONFIG)
        self.steps = 0
        if before is not None:
            self.analysis, self.steps = pickle.loads(pickle.dumps(before.analysis)), before.steps
            self.box.take_model(self.analysis)

    def step(self) -> None:
        """``CALLS`` more calls of ``solve``; the first call ever teaches nothing."""
        start = 1_000_000 * (self.steps + 1)
        calls = CALLS + (self.steps == 0)
        rows = [[0, 0, 0, kind, 1, start + 20 * call + 10 * kind] for call in range(calls) for kind in (0, 1)]
        nothing = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
        step = TraceStep(self.steps, np.array(rows, np.uint64), *nothing)
        count = self.analysis.analyse(step, NAMES).count
        self.steps += 1
        assert self.box.exchange(self.analysis, [count])


SEAL = Seal("run")


class Node:
    """An agent with one stream; another one takes over after its death."""

    clients: ClassVar[list[redis.Redis]] = []

    def __init__(
        self, folder: Path, broker: PrivateBroker, is_lockstep: bool = False, run: str = "run", parts: int = 1
    ) -> None:
        name = StreamName("app", 0, folder / "app.bp")
        self.stream = StreamHandle(name, Transport.SST, 0, "node", folder / "0-0", CONFIG, PROFILE)
        self.broker = RunBroker.connect(broker.url, run)
        self.client = self.broker.client
        self.clients.append(self.client)
        self.delta_log = DeltaLog(folder / "last-delta")
        self.statistics = AgentStatistics("agent-0", time.time_ns(), PROFILE, parts)
        self.link = ModelSync(
            self.broker, self.statistics, [self.stream], AgentNotifier(), self.delta_log, 0.01, is_lockstep
        )
        self.link.let_inherit(self.stream)
        self._reported = 0

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline
            try:
                self.link.exchange(is_flushing=False)
            except redis.RedisError:
                self.link.send_again()
            time.sleep(0.01)

    def calls(self) -> float:
        """Of ``solve``, that the model has."""
        return float(self.statistics.model.rows_for(0, NAMES.timers)[1, 0])

    def calls_by_path(self) -> int:
        """Of the path of ``solve``, that the server has reported last."""
        reported = msgspec.msgpack.Decoder(RunStatistics)
        for number, fields in cast(list[Any], self.client.xrange(self.broker.keys.statistics)):
            # As the store does; the server reports no more before.
            self.client.xdel(self.broker.keys.statistics, number)
            for path in self.broker.seal.decode(fields[PAYLOAD], reported).paths:
                assert path.functions == ["solve"]
                self._reported = path.calls
        return self._reported


@pytest.fixture(autouse=True)
def no_open_connections() -> Iterator[None]:
    yield
    while Node.clients:
        Node.clients.pop().close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent-0").mkdir()
    return tmp_path / "agent-0"


def test_what_is_learned_comes_back_as_the_model(
    folder: Path, broker: PrivateBroker, server: Service
) -> None:
    node = Node(folder, broker)
    stream = Stream(node.stream)
    for _ in range(3):
        stream.step()
        node.until(lambda: node.calls() == stream.steps * CALLS)
    # Its own copy is dropped once the model has it.
    node.until(lambda: node.stream.merged_generation >= 2)
    stream.step()
    assert stream.analysis._detection.statistics.seen(np.array([1]))[0] == 4 * CALLS


def test_a_successor_takes_over_what_nobody_had_taken(
    folder: Path, broker: PrivateBroker, server: Service
) -> None:
    node = Node(folder, broker)
    stream = Stream(node.stream)
    stream.step()
    node.until(lambda: node.calls() == CALLS)
    stream.step()
    successor = Node(folder, broker)
    Stream(successor.stream, stream).step()
    successor.until(lambda: successor.calls() == 3 * CALLS)


@pytest.mark.parametrize("died", ["before it was sent", "before it was removed", "after it was merged"])
def test_the_last_delta_of_a_dead_agent_counts_once(
    folder: Path, broker: PrivateBroker, server: Service, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    node = Node(folder, broker)
    stream = Stream(node.stream)
    stream.step()
    node.until(lambda: node.calls() == CALLS)
    stream.step()
    if died != "after it was merged":

        class Death(Exception):
            pass

        def die(*_: object) -> None:
            raise Death

        if died == "before it was sent":
            monkeypatch.setattr(node.link, "_send", die)
        else:
            monkeypatch.setattr(Outbox, "remove", die)
        with pytest.raises(Death):
            node.until(lambda: False)
        monkeypatch.undo()
        node.stream.box.close()
    else:
        node.until(lambda: node.calls() == 2 * CALLS)
    successor = Node(folder, broker)
    Stream(successor.stream, stream).step()
    successor.until(lambda: successor.calls() >= 3 * CALLS)
    assert successor.calls() == 3 * CALLS
    successor.until(lambda: successor.calls_by_path() >= 3 * CALLS)
    assert successor.calls_by_path() == 3 * CALLS


def test_what_a_stream_learns_between_two_agents_is_not_removed_with_what_the_first_had_taken(
    folder: Path, broker: PrivateBroker, server: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies after its log is written; the stream, which only hears of it, commits once more."""
    node = Node(folder, broker)
    stream = Stream(node.stream)
    stream.step()
    node.until(lambda: node.calls() == CALLS)
    stream.step()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Outbox, "remove", die)
    with pytest.raises(KeyboardInterrupt):
        node.until(lambda: False)
    monkeypatch.undo()
    node.stream.box.close()
    with pytest.raises(AssertionError):
        # Nobody knows what of the outbox the agent had taken: it stays as it is until somebody does.
        stream.step()
    successor = Node(folder, broker)
    Stream(successor.stream, stream).step()
    for _ in range(100):
        successor.link.exchange(is_flushing=True)
        time.sleep(0.01)
    assert successor.calls() == 4 * CALLS


def test_a_broker_that_was_restarted_empty_costs_nothing(
    folder: Path, broker: PrivateBroker, server: Service
) -> None:
    node = Node(folder, broker)
    stream = Stream(node.stream)
    for number in range(1, 5):
        stream.step()
        if number % 2:
            broker.stop()
            with pytest.raises(redis.RedisError):
                node.link._received_at = 0.0
                node.link.exchange(is_flushing=False)
            node.link.send_again()
            stream.step()
            broker.start()
        node.until(lambda: node.calls() == stream.steps * CALLS)


def test_server_and_broker_may_die_together(folder: Path, broker: PrivateBroker, server: Service) -> None:
    """What was merged and not saved is sent again."""
    node = Node(folder, broker)
    stream = Stream(node.stream)
    for _ in range(3):
        for _ in range(3):
            stream.step()
            node.until(lambda: node.calls() == stream.steps * CALLS)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        broker.stop()
        broker.start()
        server.start_again()
        server.wait_ready()
        stream.step()
        node.until(lambda: node.calls() == stream.steps * CALLS)


@pytest.mark.parametrize("lockstep_streams", [1])
def test_in_lockstep_no_stream_waits_for_a_model_that_found_it_locked(
    folder: Path, broker: PrivateBroker, server: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that takes over may hold the lock; the next model comes with the next epoch only."""
    node = Node(folder, broker, is_lockstep=True)
    stream = Stream(node.stream)
    put, is_locked = node.stream.box.put_model, iter([True])

    def put_unless_locked(version: int, epoch: int, *rest: Any) -> bool:
        return not (epoch == 0 and next(is_locked, False)) and put(version, epoch, *rest)

    monkeypatch.setattr(node.stream.box, "put_model", put_unless_locked)
    stream.step()
    stream.box[Cell.CLOSED_EPOCH] = 0
    node.until(lambda: stream.box[Cell.MODEL_EPOCH] == 0)
    assert next(is_locked, None) is None


@pytest.mark.parametrize("lockstep_streams", [1])
def test_in_lockstep_a_stream_that_is_found_after_the_update_gets_the_model_that_it_waits_for(
    folder: Path, broker: PrivateBroker, server: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent died before it gave the model on, and its successor hears of that before it has a stream."""
    node = Node(folder, broker, is_lockstep=True)
    stream = Stream(node.stream)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(node.stream.box, "put_model", die)
    stream.step()
    stream.box[Cell.CLOSED_EPOCH] = 0
    with pytest.raises(KeyboardInterrupt):
        node.until(lambda: False)
    node.stream.box.close()
    successor = Node(folder, broker, is_lockstep=True)
    streams = successor.link._streams
    found_late = [streams.pop()]
    successor.until(lambda: successor.statistics.model.closed_epoch == 0)
    streams += found_late
    successor.until(lambda: stream.box[Cell.MODEL_EPOCH] == 0)
    again = Stream(successor.stream, stream)
    again.step()
    assert again.analysis._detection.statistics.seen(np.array([1]))[0] == 2 * CALLS


def test_what_is_learned_while_nobody_answers_is_left_to_a_successor(
    folder: Path, broker: PrivateBroker, server: Service
) -> None:
    """A server that comes back counts it once, whoever of the two sends it."""
    node = Node(folder, broker)
    stream = Stream(node.stream)
    stream.step()
    node.until(lambda: node.calls() == CALLS)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    for steps in (2, 3):
        stream.step()
        node.link.secure()
        left = [delta for entry in node.delta_log.read() for delta in entry.deltas.values()]
        assert [step.step for delta in left for step in delta.steps][-1] == steps - 1
    assert not node.stream.box.has_news
    server.start_again()
    server.wait_ready()
    node.until(lambda: node.calls() == 3 * CALLS)
    node.stream.box.close()
    successor = Node(folder, broker)
    Stream(successor.stream, stream).step()
    successor.until(lambda: successor.calls() == 4 * CALLS)
