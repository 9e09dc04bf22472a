"""The parameter server's process against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from chimbuko.broker import BROKER_VARIABLE, PrivateBroker, connect, read_stream
from chimbuko.errors import ServiceError
from chimbuko.messages import DELTAS, FRAMES, MODEL, MODEL_UPDATES, PAYLOAD, Delta, Frame, ModelUpdate
from chimbuko.processes import Service
from chimbuko.records import StepCount
from tests.pserver.test_state import delta_of, health_of, learned_of, make_agent, model_of, timers_of

BLOCK_MS = 20_000
"""The longest wait; nothing here takes a hundredth of it."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PrivateBroker]:
    with PrivateBroker(tmp_path / "broker.log") as one:
        yield one


@pytest.fixture
def server(tmp_path: Path, broker: PrivateBroker) -> Iterator[Service]:
    service = Service("pserver", "chimbuko.pserver.service", [], {BROKER_VARIABLE: broker.url}, tmp_path)
    assert service.wait_ready() == {"service": "pserver"}
    yield service
    service.stop(10.0)


class Peer:
    """An agent's and a dashboard's view of the broker."""

    def __init__(self, url: str) -> None:
        self._client = connect(url, timeout_s=30.0)
        self._read_to = {MODEL_UPDATES: b"0", FRAMES: b"0"}

    def send(self, delta: Delta) -> None:
        self._client.xadd(DELTAS, {PAYLOAD: msgspec.msgpack.encode(delta)})

    def next_update(self) -> ModelUpdate:
        return msgspec.msgpack.decode(self._next(MODEL_UPDATES), type=ModelUpdate)

    def next_frame(self) -> Frame:
        return msgspec.msgpack.decode(self._next(FRAMES), type=Frame)

    def whole_model(self) -> ModelUpdate:
        whole = self._client.get(MODEL)
        assert isinstance(whole, bytes)
        return msgspec.msgpack.decode(whole, type=ModelUpdate)

    def kept_deltas(self) -> int:
        return int(self._client.xlen(DELTAS))

    def close(self) -> None:
        self._client.close()

    def _next(self, stream: str) -> bytes:
        ((entry, payload),) = read_stream(self._client, stream, self._read_to[stream], 1, BLOCK_MS)
        self._read_to[stream] = entry
        return payload


@pytest.fixture
def peer(broker: PrivateBroker, server: Service) -> Iterator[Peer]:
    one = Peer(broker.url)
    yield one
    one.close()


def test_deltas_go_in_models_and_frames_come_out(peer: Peer) -> None:
    agent = make_agent(0)
    agent.gather(0, timers_of(0), learned_of(0, [(0, 5), (1, 7)]))
    agent.gather_counts([StepCount(0, 3, 0, 0, 9, 2, 1, 4.0)], health_of(3))
    peer.send(delta_of(agent))
    update = peer.next_update()
    assert (update.version, update.merged) == (1, {"agent0": (1, 1)})
    assert {name: one.mean for name, one in model_of(update).items()} == {"main": 5.0, "solve": 7.0}
    assert peer.whole_model() == update
    # Trimming keeps the last one that was read.
    assert peer.kept_deltas() == 1
    frame = peer.next_frame()
    assert [(one.rank, one.total) for one in frame.ranks] == [(3, 1)]
    assert [(one.name, one.calls) for one in frame.functions] == [("main", 1), ("solve", 1)]
    assert not frame.is_last


def test_agents_are_merged(peer: Peer) -> None:
    for number in (0, 1, 2):
        agent = make_agent(number)
        agent.gather(0, timers_of(number), learned_of(number, [(1, 10 * number)]))
        peer.send(delta_of(agent))
    update = peer.next_update()
    while set(peer.whole_model().merged) != {"agent0", "agent1", "agent2"}:
        update = peer.next_update()
    assert update.version <= 3
    assert model_of(peer.whole_model())["solve"].mean == 10.0


def test_when_asked_to_end_it_merges_what_has_come_and_sends_a_last_frame(
    peer: Peer, server: Service
) -> None:
    agent = make_agent(0)
    for runtime_us in range(50):
        agent.gather(0, timers_of(0), learned_of(0, [(1, runtime_us)]))
        peer.send(delta_of(agent))
    server.ask_to_stop()
    frame = peer.next_frame()
    while not frame.is_last:
        frame = peer.next_frame()
    server.process.wait(10)
    assert server.process.returncode == 0
    assert model_of(peer.whole_model())["solve"].n == 50


def test_a_broker_that_was_restarted_empty_is_used_again(
    broker: PrivateBroker, server: Service, peer: Peer
) -> None:
    """What was merged stays merged, an agent that sends again is told so, and the model is whole again."""
    agent = make_agent(0)
    agent.gather(0, timers_of(0), learned_of(0, [(0, 5)]))
    delta = delta_of(agent)
    peer.send(delta)
    agent.apply(peer.next_update())
    agent.gather(0, timers_of(0), learned_of(0, [(0, 7)]))
    second = delta_of(agent)
    peer.send(second)
    peer.next_update()
    broker.stop()
    with pytest.raises(redis.RedisError):
        peer.send(second)
    broker.start()
    # The agent has not seen the second update, and nobody has it any more.
    peer.send(second)
    update = peer.next_update()
    assert update.merged == {"agent0": (1, 2)}
    agent.apply(peer.whole_model())
    assert agent.merged_sequence == 2
    assert model_of(peer.whole_model())["main"].n == 2
    assert server.is_running


def test_a_server_without_a_broker_says_so_and_ends(tmp_path: Path) -> None:
    environment = {BROKER_VARIABLE: "redis://127.0.0.1:9/0"}
    service = Service("pserver", "chimbuko.pserver.service", [], environment, tmp_path)
    with pytest.raises(ServiceError, match=r"pserver did not start: broker at 127.0.0.1:9 cannot be used"):
        service.wait_ready()
    assert not service.is_running
