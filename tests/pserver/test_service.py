"""The parameter server's process against a real broker."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pytest
import redis

from chimbuko.core.calls.record import StepCount
from chimbuko.core.errors import ServiceError
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE, PackedTable
from chimbuko.pserver import server as server_module
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.storyfile import last_steps
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.messages import (
    PAYLOAD,
    Acknowledgement,
    Delta,
    Frame,
    FunctionName,
    FunctionStatistics,
    ModelUpdate,
)
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import TIMER, RankTimers
from tests.core.calls.test_pathtable import path_rows
from tests.patience import PATIENCE_S
from tests.pserver.agents import Agent
from tests.pserver.state.test_serverstate import (
    EXCLUSIVE,
    NAMES,
    Values,
    health_of,
    learned_of,
    make_agent,
    timers_of,
)

SSTD = ["--run-id", "run", "--detector", "sstd"]
BLOCK_MS = 20_000
"""The longest wait; nothing here takes a hundredth of it."""


@pytest.fixture
def server(tmp_path: Path, broker: PrivateBroker) -> Iterator[Service]:
    service = Service("pserver", "chimbuko.pserver", SSTD, {BROKER_VARIABLE: broker.url}, tmp_path)
    assert service.wait_ready() == {"service": "pserver"}
    yield service
    service.stop(10.0)


class Peer:
    """An agent's and a dashboard's view of the broker."""

    def __init__(self, url: str) -> None:
        self._broker = RunBroker.connect(url, "run", timeout_s=30.0)
        self._client, self._keys = self._broker.client, self._broker.keys
        self._read_to = {self._keys.part(0).model_updates: b"0", self._keys.frames: b"0"}

    def send(self, delta: Delta) -> None:
        self._client.xadd(self._keys.part(0).deltas, {PAYLOAD: self._broker.seal.encode(delta)})

    def next_update(self) -> ModelUpdate:
        return self._broker.seal.decode(
            self._next(self._keys.part(0).model_updates), msgspec.msgpack.Decoder(ModelUpdate)
        )

    def next_frame(self) -> Frame:
        return self._broker.seal.decode(self._next(self._keys.frames), msgspec.msgpack.Decoder(Frame))

    def merged(self, agent: str) -> int:
        return self._acknowledged(agent).merged

    def saved(self, agent: str) -> int:
        return self._acknowledged(agent).saved

    def wait_for(self, agent: str, merged: int = 0, saved: int = 0) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (place := self._acknowledged(agent)).merged < merged or place.saved < saved:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def model(self) -> dict[str, Moments]:
        keys = self._keys.part(0)
        functions = cast(list[bytes], self._client.lrange(keys.functions, 0, -1))
        names = [msgspec.msgpack.decode(function, type=FunctionName).name for function in functions]
        model = cast(dict[bytes, bytes], self._client.hgetall(keys.model))
        rows = {
            names[int(number)]: PROFILE.unpack(msgspec.msgpack.decode(row, type=PackedTable))
            for number, row in model.items()
        }
        return {name: Moments.from_row(row[0, EXCLUSIVE]) for name, row in rows.items()}

    def snapshot(self) -> Frame:
        keys = self._keys.part(0)
        answer = self._answered(keys.snapshot_wanted, keys.snapshot)
        return self._broker.seal.decode(answer, msgspec.msgpack.Decoder(Frame))

    def timers(self) -> RankTimers:
        keys = self._keys.part(0)
        self._answered(keys.timers_wanted, keys.timers)
        return self.last_timers()

    def last_timers(self) -> RankTimers:
        answer = cast(bytes, self._client.get(self._keys.part(0).timers))
        return self._broker.seal.decode(answer, msgspec.msgpack.Decoder(RankTimers))

    def kept_deltas(self) -> int:
        return int(self._client.xlen(self._keys.part(0).deltas))

    def close(self) -> None:
        self._client.close()

    def _acknowledged(self, agent: str) -> Acknowledgement:
        answer = cast(bytes | None, self._client.hget(self._keys.part(0).acks, agent))
        return (
            Acknowledgement(-1, 0, 0)
            if answer is None
            else msgspec.msgpack.decode(answer, type=Acknowledgement)
        )

    def _answered(self, wanted: str, key: str) -> bytes:
        self._client.delete(key)
        self._client.set(wanted, 1)
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self._client.get(key)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return cast(bytes, answer)

    def _next(self, stream: str) -> bytes:
        ((entry, payload),) = self._broker.read(stream, self._read_to[stream], 1, BLOCK_MS)
        self._read_to[stream] = entry
        return payload


@pytest.fixture
def peer(broker: PrivateBroker, server: Service) -> Iterator[Peer]:
    one = Peer(broker.url)
    yield one
    one.close()


@pytest.fixture
def saving_server(broker: PrivateBroker, tmp_path: Path) -> Iterator[Service]:
    arguments = [*SSTD, "--state", str(tmp_path / "state")]
    service = Service("pserver", "chimbuko.pserver", arguments, {BROKER_VARIABLE: broker.url}, tmp_path)
    service.wait_ready()
    yield service
    assert service.stop(20.0)


@pytest.fixture
def lone_peer(broker: PrivateBroker) -> Iterator[Peer]:
    one = Peer(broker.url)
    yield one
    one.close()


def learn(agent: Agent, number: int, values: Values) -> Delta:
    timers = {name: timer for timer, name in timers_of(number).items()}
    paths = path_rows([((timers[NAMES[function]],), runtime_us) for function, runtime_us in values])
    agent.learn(0, timers_of(number), learned_of(number, values), rank=number, paths=paths)
    return agent.delta()


def test_deltas_go_in_models_and_frames_come_out(peer: Peer) -> None:
    agent = make_agent(0)
    agent.count([StepCount(0, 3, 0, 0, 9, 2, 1, 4.0)], health_of(3))
    peer.send(learn(agent, 0, [(0, 5), (1, 7)]))
    peer.wait_for("agent0", merged=1, saved=1)
    update = peer.next_update()
    while not len(update.numbers):
        update = peer.next_update()
    assert {name: one.mean for name, one in peer.model().items()} == {"main": 5.0, "solve": 7.0}
    frame = peer.next_frame()
    assert [(one.rank, one.total) for one in frame.ranks] == [(3, 1)]
    assert [(one.name, one.calls) for one in frame.functions] == [("main", 1), ("solve", 1)]
    assert not frame.is_last


def test_what_is_saved_is_trimmed(peer: Peer) -> None:
    agent = make_agent(0)
    for number in range(1, 6):
        peer.send(learn(agent, 0, [(0, number)]))
    peer.wait_for("agent0", merged=5, saved=5)
    # Trimming keeps the last one that was read.
    assert peer.kept_deltas() <= 1


def test_agents_are_merged(peer: Peer) -> None:
    for number in (0, 1, 2):
        peer.send(learn(make_agent(number), number, [(1, 10 * number)]))
    for number in (0, 1, 2):
        peer.wait_for(f"agent{number}", merged=1)
    assert peer.snapshot().functions[0].exclusive_mean_us == 10.0
    timers = peer.timers()
    called = {
        (rank, timers.functions[function]): (calls, us)
        for _, rank, function, calls, us, _ in np.frombuffer(timers.rows, TIMER).tolist()
    }
    assert called == {(number, "solve"): (1, 10.0 * number) for number in (0, 1, 2)}


def test_who_comes_late_gets_a_snapshot_and_then_what_follows(peer: Peer) -> None:
    agent = make_agent(0)
    agent.count([StepCount(0, 3, 0, 0, 9, 2, 1, 4.0)], health_of(3))
    peer.send(learn(agent, 0, [(0, 5), (1, 7)]))
    frame = peer.next_frame()
    snapshot = peer.snapshot()
    assert (snapshot.ranks, snapshot.health) == (frame.ranks, frame.health)
    assert {one.name for one in snapshot.functions} == {"main", "solve"}
    agent.count([StepCount(0, 3, 1, 10, 19, 2, 1, 4.0)], health_of(3))
    peer.send(agent.delta())
    while not (frame := peer.next_frame()).steps:
        pass
    assert frame.tick > snapshot.tick
    assert [(one.rank, one.total) for one in frame.ranks] == [(3, 2)]


def test_when_asked_to_end_it_merges_what_has_come_and_sends_a_last_frame(
    tmp_path: Path, peer: Peer, server: Service
) -> None:
    agent = make_agent(0)
    peer.timers()
    for runtime_us in range(50):
        peer.send(learn(agent, 0, [(1, runtime_us)]))
    server.ask_to_stop()
    functions: dict[str, FunctionStatistics] = {}
    while not (frame := peer.next_frame()).is_last:
        functions |= {one.name: one for one in frame.functions}
    functions |= {one.name: one for one in frame.functions}
    server.process.wait(PATIENCE_S)
    assert server.process.returncode == 0
    assert functions["solve"].calls == 50
    assert np.frombuffer(peer.last_timers().rows, TIMER)["calls"].tolist() == [50]
    (story,) = last_steps(tmp_path, 10).values()
    assert any("SendFrame is_last" in step and "life ended" in step for step in story)


def test_a_broker_that_was_restarted_empty_is_used_again(
    tmp_path: Path, broker: PrivateBroker, server: Service, peer: Peer
) -> None:
    """What was merged stays merged, an agent that sends again is told so, and the model is whole again."""
    agent = make_agent(0)
    first, second = learn(agent, 0, [(0, 5)]), learn(agent, 0, [(0, 7)])
    peer.send(first)
    peer.send(second)
    peer.wait_for("agent0", merged=2)
    broker.stop()
    with pytest.raises(redis.RedisError):
        peer.send(second)
    broker.start()
    peer.wait_for("agent0", merged=2)
    assert peer.model()["main"].n == 2
    peer.send(second)
    third = learn(agent, 0, [(0, 9)])
    peer.send(third)
    peer.wait_for("agent0", merged=3)
    assert peer.snapshot().functions[0].calls == 3
    assert server.is_running
    (story,) = last_steps(tmp_path, 2).values()
    assert "BrokerFailed" in story[0]


def test_a_killed_server_is_followed_by_one_that_knows_what_it_acknowledged(
    lone_peer: Peer, saving_server: Service
) -> None:
    """Saved or not: what it had not saved is still in the broker."""
    server = saving_server
    agent, sent = make_agent(0), 0
    for number in range(4):
        for _ in range(5):
            sent += 1
            lone_peer.send(learn(agent, 0, [(0, sent)]))
        lone_peer.wait_for("agent0", merged=sent, saved=sent if number % 2 else 0)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.start_again()
        server.wait_ready()
    lone_peer.send(learn(agent, 0, [(0, sent + 1)]))
    lone_peer.wait_for("agent0", merged=sent + 1)
    (function,) = lone_peer.snapshot().functions
    assert (function.calls, function.exclusive_mean_us) == (sent + 1, (sent + 2) / 2)
    assert np.frombuffer(lone_peer.timers().rows, TIMER)["calls"].tolist() == [sent + 1]


def test_a_server_elsewhere_goes_on_from_the_copy_with_what_agents_have_kept(tmp_path: Path) -> None:
    """Agents forget what is in the copy, and nothing else: it is all that is left of a node."""
    copy = tmp_path / "copy"

    def served(node: Path, broker: PrivateBroker) -> Service:
        words = [*SSTD, "--state", str(node / "state"), "--state-copy", str(copy)]
        service = Service("pserver", "chimbuko.pserver", words, {BROKER_VARIABLE: broker.url}, node)
        service.wait_ready()
        return service

    agent, saved = make_agent(0), 0
    sent: list[Delta] = []
    for number in range(2):
        node = tmp_path / f"node{number}"
        node.mkdir()
        if copy.exists():
            shutil.copyfile(copy, node / "state")
        with PrivateBroker(node / "broker.log") as broker:
            server, peer = served(node, broker), Peer(broker.url)
            for delta in sent[saved:]:
                peer.send(msgspec.structs.replace(delta, since=saved + 1))
            for runtime_us in range(3):
                also = [(1, runtime_us)] if len(sent) >= 2 else []
                delta = learn(agent, 0, [(0, runtime_us), *also])
                sent.append(delta)
                peer.send(msgspec.structs.replace(delta, since=saved + 1))
                # The first is copied at once, and others after a while.
                peer.wait_for("agent0", merged=len(sent), saved=1)
            found = sorted(function.calls for function in peer.snapshot().functions)
            server.stop(0.0)
            saved = peer.saved("agent0")
            peer.close()
    assert found == [4, 6]


def test_a_state_that_cannot_be_read_is_refused(broker: PrivateBroker, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"nonsense")
    arguments = [*SSTD, "--state", str(tmp_path / "state")]
    service = Service("pserver", "chimbuko.pserver", arguments, {BROKER_VARIABLE: broker.url}, tmp_path)
    with pytest.raises(ServiceError, match=r"state: the saved state cannot be read .*; remove it"):
        service.wait_ready()


def test_a_server_without_a_broker_says_so_and_ends(tmp_path: Path) -> None:
    environment = {BROKER_VARIABLE: "redis://127.0.0.1:9/0"}
    service = Service("pserver", "chimbuko.pserver", ["--run-id", "run"], environment, tmp_path)
    with pytest.raises(ServiceError, match=r"pserver did not start: broker at 127.0.0.1:9 cannot be used"):
        service.wait_ready()
    assert not service.is_running


def test_of_many_frames_the_broker_keeps_the_newest(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "KEPT_FRAMES", 3)
    run_broker = RunBroker.connect(broker.url, "run")
    frames = server_module.FrameStream(run_broker)
    for tick in range(1, 6):
        frames.send(Frame(tick, [], [], [], [], is_last=False))
    kept = cast(list[tuple[bytes, dict[bytes, bytes]]], run_broker.client.xrange(run_broker.keys.frames))
    decoder = msgspec.msgpack.Decoder(Frame)
    assert [run_broker.seal.decode(entry[PAYLOAD], decoder).tick for _, entry in kept] == [3, 4, 5]
