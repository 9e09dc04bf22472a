"""The benchmark of the parameter server, in small; and that what the server holds does not grow with time."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.server.agents import RealAgent
from benchmarks.server.load import LOADS, Load, Seconds
from benchmarks.server.measure import measure
from benchmarks.server.node import measure as measure_node
from benchmarks.server.parts import messages, served
from benchmarks.server.samples import measure as measure_samples
from benchmarks.server.wire import Reply, end_of_reply, parsed
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Delta, Frame

SCHEMA = schema_of(AnalysisConfig().detector)
SMALL = Load(agents=6, ranks_per_agent=2, programs=2, functions=10)

replies = st.recursive(
    st.one_of(st.none(), st.integers(0, 1 << 40), st.binary(max_size=20)),
    lambda members: st.lists(members, max_size=4),
    max_leaves=12,
)


def encoded(reply: Reply) -> bytes:
    """As a broker sends it."""
    match reply:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(reply), reply)
        case _:
            return b"*%d\r\n" % len(reply) + b"".join(map(encoded, reply))


@settings(deadline=None)
@given(st.lists(replies, min_size=1, max_size=3), st.data())
def test_replies_are_found_to_end_where_they_do(sent: list[Reply], data: st.DataObject) -> None:
    buffer = b"".join(map(encoded, sent))
    at = 0
    for reply in sent:
        value, end = parsed(buffer, at)
        assert value == reply
        assert end_of_reply(np.frombuffer(buffer, np.uint8).copy(), at) == end
        cut = data.draw(st.integers(at, end - 1))
        assert end_of_reply(np.frombuffer(buffer[:cut], np.uint8).copy(), at) == -1
        at = end


def test_parts_learn_together_what_one_learns() -> None:
    """Of the load that is measured; each message of an agent goes to its parts once."""
    found = {}
    for parts in (1, 3):
        made = messages(2, parts)
        states = [served(made, part, parts) for part in range(parts)]
        assert not any(state.lost_deltas for state in states)
        frames = [state.snapshot() for state in states]
        found[parts] = (
            {(one.program, one.name): one.calls for frame in frames for one in frame.functions},
            {(one.program, one.rank): one.steps for frame in frames for one in frame.ranks},
        )
    assert found[1] == found[3] and len(found[1][1]) == LOADS["nodes"].ranks


def test_nothing_is_lost_and_every_call_counted() -> None:
    for are_few_real in (False, True):
        result, samples = measure(SMALL, 15, 0.1, are_few_real)
        assert result.lost_messages == result.wrong_functions == 0
        assert 0 < result.messages <= 15 * SMALL.agents
        assert result.delays > 0
        assert result.bytes_per_message > result.telemetry_bytes_per_message + result.table_bytes_per_message
        assert all(before.server_s <= after.server_s for before, after in pairwise(samples))


@pytest.mark.thorough
def test_what_the_server_holds_does_not_grow_with_the_length_of_a_run() -> None:
    drawn = Seconds(SMALL, SCHEMA, 4)
    agents = [RealAgent(SMALL, number, drawn, SCHEMA) for number in range(SMALL.agents)]
    server = ServerState(0, SCHEMA)
    decoder = msgspec.msgpack.Decoder(Delta)
    saved_bytes, frame_bytes = [], []
    for turn in range(400):
        for agent in agents:
            delta = agent.next_delta(turn)
            assert delta is not None and server.apply(decoder.decode(delta.encoded))
        server.publish(float(turn))
        server.acknowledgements()
        frame: Frame | None = server.frame()
        saved_bytes.append(len(msgspec.msgpack.encode(server.save())))
        frame_bytes.append(len(msgspec.msgpack.encode(frame)))
        server.is_saved()
    # By then each of the functions that a program calls has had an abnormal call on each rank.
    early, late = slice(100, 200), slice(300, 400)
    assert max(saved_bytes[late]) < 1.1 * max(saved_bytes[early])
    assert max(frame_bytes[late]) < 1.1 * max(frame_bytes[early])


@pytest.mark.thorough
def test_all_services_lose_nothing_of_a_few_nodes() -> None:
    found = measure_node(Load(agents=4, ranks_per_agent=2, programs=2, functions=10), 14, 1.0)
    assert (found.not_merged, found.not_stored) == (0, 0)
    assert found.findings_per_s > 0
    assert {part.name for part in found.parts} == {"serve", "server", "broker", "writer", "dashboard"}


@pytest.mark.thorough
def test_samples_of_all_nodes_are_stored() -> None:
    found = measure_samples(nodes=4, threads=20, seconds=12, kept=0.5)
    assert (found.stored, found.calls_stored) == (found.sent, found.calls_sent)
    assert found.calls_sent == 4 * 12 // 2 and found.sent > found.calls_sent
    assert found.stored_bytes_per_node_hour > 0
