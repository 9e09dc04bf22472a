"""Whatever tree of servers deltas go through, in whatever order, and whoever dies: each counts once."""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.pserver.state.leafstate import LeafState, NamedFunctions
from chimbuko.pserver.state.savedstate import SavedState
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Acknowledgement, Delta
from chimbuko.runtime.protocol.telemetry import PACE, AgentFigures
from tests.plainpython import examples
from tests.pserver.test_exactly_once import Step

AGENTS = 4
LEAVES = 2
"""Agents are shared among them."""
encode = msgspec.msgpack.encode
decode = msgspec.msgpack.Decoder(Delta).decode


class Agent:
    """An agent that keeps what is not saved."""

    def __init__(self, number: int) -> None:
        self.name = f"agent{number}"
        self.number = number
        self.statistics = AgentStatistics(self.name, 1, PROFILE)
        self.unsaved: deque[Delta] = deque()
        self.made: list[Delta] = []

    def learn(self, runtime_us: int) -> Delta:
        """Make the delta of a step, with functions that only this step calls."""
        number = len(self.made)
        self.statistics.note_health(
            StreamHealth(0, self.number, self.name, "reading", number, 1, 48, 1, 1, 0, {})
        )
        self.statistics.note_figures(AgentFigures(self.name, number, 1, 1.0, 1, 0.0))
        outgoing = self.statistics.next_round([Step(self.number, number, runtime_us, 1).part], {})
        assert outgoing is not None
        delta = outgoing.deltas[0]
        paces = np.zeros(1, PACE)
        paces["rank"], paces["calls"], paces["time_us"] = self.number, 1, 1.0
        telemetry = msgspec.structs.replace(delta.telemetry, paces=paces.tobytes(), node=self.name)
        self.made.append(msgspec.structs.replace(delta, telemetry=telemetry))
        self.unsaved.append(self.made[-1])
        return self.made[-1]

    def is_told(self, said: Acknowledgement | None) -> None:
        """Forget what is saved."""
        while said is not None and self.unsaved and self.unsaved[0].sequence <= said.saved:
            self.unsaved.popleft()


def new_server() -> ServerState:
    """A server that knows the program."""
    server = ServerState()
    server.name_programs({0: "heat"})
    return server


class Tree:
    """Agents, leaf servers and a server, with what is on its way between them."""

    def __init__(self) -> None:
        self.agents = [Agent(number) for number in range(AGENTS)]
        self.server = new_server()
        self.stream: list[bytes] = []
        self.read = 0
        self.saved = encode(self.server.save())
        self.incarnation = 0
        self.lost: set[int] = set()
        """Leaf servers that have not noticed yet that another server has taken over."""
        self.inboxes: list[deque[Delta]] = [deque() for _ in range(LEAVES)]
        self.leaves = [self.leaf(number) for number in range(LEAVES)]

    def leaf(self, number: int) -> LeafState:
        """A leaf server in the place of any before."""
        self.incarnation += 1
        leaf = LeafState(f"leaf {number}", self.incarnation, PROFILE)
        self.stream.append(encode(leaf.greeting()))
        return leaf

    def learn(self, number: int, runtime_us: int) -> None:
        self.inboxes[number % LEAVES].append(self.agents[number].learn(runtime_us))

    def send_again(self, number: int) -> None:
        self.inboxes[number % LEAVES].extend(self.agents[number].unsaved)

    def merge(self, number: int, count: int) -> None:
        """Let a leaf server merge some of what came."""
        inbox = self.inboxes[number % LEAVES]
        for _ in range(min(count, len(inbox))):
            self.leaves[number % LEAVES].apply(inbox.popleft())

    def send(self, number: int) -> None:
        delta = self.leaves[number % LEAVES].next_delta()
        if delta is not None:
            self.stream.append(encode(delta))

    def merge_above(self) -> None:
        for payload in self.stream[self.read :]:
            self.server.apply(decode(payload))
        self.read = len(self.stream)

    def save(self) -> None:
        """Save the server's state; what it contains leaves the stream."""
        self.saved = encode(self.server.save())
        self.server.is_saved()
        del self.stream[: self.read]
        self.read = 0

    def acknowledge(self, number: int) -> None:
        if number % LEAVES in self.lost:
            self.kill_leaf(number)
        leaf = self.leaves[number % LEAVES]
        said = self.server.all_acknowledgements().get(leaf.name)
        if said is None:
            return
        for name, one in leaf.acknowledge(said).items():
            self.agents[int(name.removeprefix("agent"))].is_told(one)
        self.stream += map(encode, leaf.unmerged())

    def kill_leaf(self, number: int) -> None:
        """Of what it held nothing is left but names; another one waits until the server knows of it."""
        number %= LEAVES
        self.lost.discard(number)
        kept = msgspec.msgpack.decode(encode(self.leaves[number].names), type=dict[str, NamedFunctions])
        leaf = self.leaf(number)
        self.merge_above()
        said = self.server.all_acknowledgements()
        leaf.acknowledge(said[leaf.name])
        own = {agent.name for agent in self.agents[number::LEAVES]}
        leaf.restore({name: one for name, one in said.items() if name in own}, kept)
        self.leaves[number] = leaf
        self.inboxes[number].clear()
        for agent in self.agents[number::LEAVES]:
            self.send_again(agent.number)

    def kill_server(self, _: int) -> None:
        self.server = new_server()
        self.server.restore(msgspec.msgpack.decode(self.saved, type=SavedState))
        self.read = 0
        self.lost = set(range(LEAVES))

    def kill_broker(self, _: int) -> None:
        """All that is on its way is lost, and leaf servers begin anew."""
        self.stream.clear()
        self.read = 0
        for number in range(LEAVES):
            self.kill_leaf(number)

    def settle(self) -> None:
        """Let all come to its end."""
        for _ in range(3):
            for number in range(LEAVES):
                self.acknowledge(number)
            for number in range(AGENTS):
                self.send_again(number)
            for number in range(LEAVES):
                self.merge(number, 1_000)
                self.send(number)
            self.merge_above()
            self.save()
            for number in range(LEAVES):
                self.acknowledge(number)
        assert not any(agent.unsaved for agent in self.agents)
        assert all(leaf.is_empty for leaf in self.leaves)


OPERATIONS = (
    *(Tree.send_again, Tree.send, Tree.acknowledge, Tree.kill_leaf, Tree.kill_server, Tree.kill_broker),
    *(lambda tree, _: tree.merge_above(), lambda tree, _: tree.save()),
    *(lambda tree, number: tree.merge(number, 1), lambda tree, number: tree.merge(number, 9)),
    *(lambda tree, number: tree.learn(number % AGENTS, 100 + 7 * number),) * 4,
)


def assert_knows_the_same(tree: ServerState, one: ServerState) -> None:
    """The model, and all that is reported, as of one server that has merged every delta."""
    (names, table), (others, expected) = tree.learned(), one.learned()
    order, theirs = np.argsort([str(name) for name in names]), np.argsort([str(name) for name in others])
    assert [names[at] for at in order] == [others[at] for at in theirs]
    np.testing.assert_allclose(table[order], expected[theirs], rtol=1e-9, atol=1e-3)
    frames = [state.frame(is_last=True) for state in (tree, one)]
    assert all(frame is not None for frame in frames)
    ours, wanted = (frame for frame in frames if frame is not None)
    assert sorted(map(repr, ours.ranks)) == sorted(map(repr, wanted.ranks))
    assert sorted(map(repr, ours.health)) == sorted(map(repr, wanted.health))
    assert ours.telemetry.agents == wanted.telemetry.agents
    assert tree.lost_deltas == one.lost_deltas == 0
    reports = [state.statistics(is_last=True) for state in (tree, one)]
    paths = [
        {(path.program, *path.functions): (path.calls, path.begun, path.spent_us) for path in report.paths}
        for report in reports
        if report is not None
    ]
    assert paths[0] == paths[1]


def test_a_tree_knows_what_one_server_knows_whoever_dies() -> None:
    numbers = st.integers(0, 50)

    @given(st.lists(st.tuples(st.sampled_from(OPERATIONS), numbers), max_size=40))
    @examples(60)
    def check(operations: list[tuple[object, int]]) -> None:
        tree = Tree()
        for operation, number in operations:
            target = number % AGENTS if operation is Tree.send_again else number
            operation(tree, target)  # type: ignore[operator]
        tree.settle()
        one = new_server()
        for agent in tree.agents:
            for delta in agent.made:
                assert one.apply(delta)
        assert_knows_the_same(tree.server, one)

    check()


def test_leaf_servers_merge_those_below_them() -> None:
    @given(st.lists(st.tuples(st.integers(0, AGENTS - 1), st.integers(0, 2)), max_size=25))
    @examples(30)
    def check(steps: list[tuple[int, int]]) -> None:
        agents = [Agent(number) for number in range(AGENTS)]
        below, above = LeafState("below", 1, PROFILE), LeafState("above", 1, PROFILE)
        server, one = new_server(), new_server()
        above.apply(below.greeting())
        for number, then in steps:
            delta = agents[number].learn(100 + number)
            assert one.apply(delta)
            assert (below if number % 2 else above).apply(delta)
            if then and (merged := below.next_delta()) is not None:
                assert above.apply(decode(encode(merged)))
            if then == 2 and (merged := above.next_delta()) is not None:
                assert server.apply(decode(encode(merged)))
        for leaf, into in ((below, above), (above, server)):
            if (merged := leaf.next_delta()) is not None:
                assert into.apply(merged)
        if steps:
            assert_knows_the_same(server, one)
        known = server.all_acknowledgements()
        for agent in agents:
            if agent.made:
                assert known[agent.name].merged == agent.made[-1].sequence

    check()


def test_nothing_is_acknowledged_as_saved_before_the_server_above_saves_it() -> None:
    """An agent forgets what is saved: had the server died then, its calls were counted nowhere."""
    agent, leaf, server = Agent(0), LeafState("leaf", 1, PROFILE), new_server()
    assert server.apply(leaf.greeting())
    assert leaf.apply(agent.learn(100))
    merged = leaf.next_delta()
    assert merged is not None and server.apply(decode(encode(merged)))
    told = leaf.acknowledge(server.all_acknowledgements()["leaf"])[agent.name]
    assert (told.merged, told.saved) == (agent.made[-1].sequence, 0)
    server.save()
    server.is_saved()
    assert leaf.acknowledge(server.all_acknowledgements()["leaf"])[agent.name].saved == told.merged
