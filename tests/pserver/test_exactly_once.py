"""Agents and server lose each other, their memories and what was on its way: each step still counts once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, Outgoing, StreamShare
from chimbuko.ad.modelsync.pendingdeltas import PendingRounds
from chimbuko.core.calls.record import StepCount
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.pserver.state.savedstate import SavedState
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Acknowledgement, Delta
from chimbuko.runtime.protocol.partition import part_of_function
from chimbuko.runtime.protocol.telemetry import TIMER
from tests.core.calls.test_pathtable import path_rows

ROUNDS = int(os.environ.get("CHIMBUKO_FAULTS_ROUNDS", "1"))
"""More in ``make faults``."""
AGENTS = 2
EXCLUSIVE = PROFILE.slices["exclusive_us"]
COMMON = "solve"
"""Called in each step; beside it each step has a function of its own in each part of the server."""

agents = st.integers(0, AGENTS - 1)
any_part = st.integers(0, 1)
entries = st.integers(0, 100)


@dataclass(frozen=True)
class Step:
    """What one step has taught."""

    rank: int
    number: int
    runtime_us: int
    parts: int

    def mark(self, part: int) -> str:
        """The function of a part of the server that is called in this step only."""
        names = (f"step {self.number} of rank {self.rank}, {number}" for number in count())
        return next(name for name in names if part_of_function(0, name, self.parts) == part)

    @property
    def part(self) -> StreamShare:
        """What an agent takes from the stream's process."""
        functions = [COMMON, *map(self.mark, range(self.parts))]
        table = PROFILE.empty(len(functions))
        table[:, EXCLUSIVE] = Moments.of([self.runtime_us]).row()
        steps = [StepCount(0, self.rank, self.number, 0, 9, len(functions), 0, 0.0)]
        learned = Learned(np.arange(len(functions)), table)
        paths = path_rows([((0,), self.runtime_us)])
        return StreamShare(0, self.rank, dict(enumerate(functions)), learned, steps, paths=paths)


Deltas = Mapping[int, Delta]
"""Of a round, by part of the server."""


@dataclass
class Agent:
    """An agent with one stream, and what outlives it: the stream's outbox and the log of deltas."""

    number: int
    parts: int
    incarnation: int = 0
    steps: int = 0
    outbox: list[Step] = field(default_factory=list)
    generation: int = 0
    delta_log: list[tuple[int, Deltas, int]] = field(default_factory=list)
    """Rounds that are not merged yet, and the generation of the outbox that each took."""

    def __post_init__(self) -> None:
        self.begin()

    @property
    def name(self) -> str:
        return f"agent{self.number}"

    def begin(self) -> None:
        """A process takes over from one that died."""
        self.incarnation += 1
        self.statistics = AgentStatistics(self.name, self.incarnation, PROFILE, self.parts)
        self.unsaved = PendingRounds(self.parts, self.logged)
        for number, deltas, _ in self.delta_log:
            self.statistics.follow(number, deltas)
        if self.delta_log and self.delta_log[-1][-1] == self.generation:
            self.empty_outbox()

    @property
    def logged(self) -> list[tuple[int, Deltas]]:
        """What a successor sends."""
        return [(number, deltas) for number, deltas, _ in self.delta_log]

    def learn(self, runtime_us: int) -> Step:
        step = Step(self.number, self.steps, runtime_us, self.parts)
        self.outbox.append(step)
        self.steps += 1
        return step

    def next_round(self) -> Outgoing | None:
        """What is to be sent, which is in the log of deltas from now on, and still in the outbox."""
        outgoing = self.statistics.next_round([step.part for step in self.outbox], {})
        if outgoing is not None:
            waiting = [one for one in self.delta_log if not self.unsaved.is_merged(one[1])]
            self.delta_log = [*waiting, (outgoing.round, outgoing.deltas, self.generation)]
        return outgoing

    def empty_outbox(self) -> None:
        self.outbox.clear()
        self.generation += 1


@dataclass
class ServerPart:
    """A part of the server, and what of it is in the broker and on disk."""

    number: int
    stream: list[bytes] = field(default_factory=list)
    """In the broker,"""
    acknowledged: dict[str, Acknowledgement] = field(default_factory=dict)
    """and this."""
    read: int = 0
    saved: bytes | None = None
    sent: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """Agent and number of each delta, and the marks in it."""
    unnamed: set[tuple[str, int]] = field(default_factory=set)
    """Deltas whose functions were named in lost ones."""

    def __post_init__(self) -> None:
        self.state = ServerState(part=self.number)

    def begin_reading(self) -> None:
        """What the server does at first, and when the broker was away."""
        self.read = 0
        self.state.whole()
        self.acknowledged = self.state.acknowledgements()


class ExactlyOnce(RuleBasedStateMachine):
    """Everything that can go wrong on the way, in any order."""

    parts: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.agents = [Agent(number, self.parts) for number in range(AGENTS)]
        self.learned: list[Step] = []
        self.orphans: set[str] = set()
        """Marks in deltas that only a dead agent could have sent again; the server had not saved them."""
        self.servers = [ServerPart(number) for number in range(self.parts)]

    def server(self, part: int) -> ServerPart:
        return self.servers[part % self.parts]

    def marks_of(self, part: int, delta: Delta) -> list[str]:
        """Functions of a part that are called in one step only, of the steps in a delta."""
        own = (name.name for name in delta.names if name.name != COMMON)
        return [name for name in own if part_of_function(0, name, self.parts) == part]

    @rule(agent=agents, runtimes_us=st.lists(st.integers(1, 1000), min_size=1, max_size=3))
    def learn(self, agent: int, runtimes_us: list[int]) -> None:
        self.learned += [self.agents[agent].learn(runtime_us) for runtime_us in runtimes_us]

    @rule(agent=agents, runtime_us=st.integers(1, 1000))
    def learn_and_report(self, agent: int, runtime_us: int) -> None:
        """All goes well."""
        self.learn(agent, [runtime_us])
        self.send(agent)
        self.serve_all()
        self.receive(agent)

    @rule(agent=agents)
    def send(self, agent: int) -> None:
        one = self.agents[agent]
        self.receive(agent)
        if one.unsaved.is_waiting:
            return
        outgoing = one.next_round()
        if outgoing is not None:
            one.empty_outbox()
            self.put(one.unsaved.add(outgoing.round, outgoing.deltas))

    @rule(agent=agents, is_emptied=st.booleans())
    def agent_dies_while_it_sends(self, agent: int, is_emptied: bool) -> None:
        one = self.agents[agent]
        if not one.unsaved.is_waiting and one.next_round() is not None and is_emptied:
            one.empty_outbox()
        kept = {(part, delta.sequence) for _, deltas in one.logged for part, delta in deltas.items()}
        for part, deltas in one.unsaved.all().items():
            for delta in deltas:
                if (part, delta.sequence) not in kept:
                    self.orphans.update(self.marks_of(part, delta))
        one.begin()

    @rule(agent=agents)
    def secure(self, agent: int) -> None:
        """The server does not answer, and the agent may be killed soon."""
        one = self.agents[agent]
        outgoing = one.next_round()
        if outgoing is not None:
            one.empty_outbox()
            for part, delta in outgoing.deltas.items():
                self.note_sent(part, delta)
            one.unsaved.add(outgoing.round, outgoing.deltas)
        logged = {(part, delta.sequence) for _, deltas in one.logged for part, delta in deltas.items()}
        merged: list[tuple[int, Deltas, int]] = [
            (one.statistics.round, {part: delta}, -1)
            for part, deltas in one.unsaved.all().items()
            for delta in deltas
            if (part, delta.sequence) not in logged
        ]
        one.delta_log = [*merged, *one.delta_log]

    @rule(agent=agents)
    def rescue(self, agent: int) -> None:
        """What an agent has left is merged by others, and the agent goes on."""
        self.secure(agent)
        self.put(PendingRounds(self.parts, self.agents[agent].logged).all())

    @rule(agent=agents)
    def send_again(self, agent: int) -> None:
        self.put(self.agents[agent].unsaved.all())

    @rule(agent=agents)
    def receive(self, agent: int) -> None:
        one = self.agents[agent]
        has_lost = False
        for server in self.servers:
            acknowledged = server.acknowledged.get(one.name)
            pending = one.unsaved.parts[server.number]
            has_lost |= acknowledged is not None and not pending.acknowledge(acknowledged)
            one.unsaved.contain(server.number, pending.merged_sequence)
        if has_lost:
            self.send_again(agent)

    @rule(part=any_part, count=st.integers(1, 3))
    def serve(self, part: int, count: int) -> None:
        server = self.server(part)
        for entry in server.stream[server.read : server.read + count]:
            delta = msgspec.msgpack.decode(entry, type=Delta)
            try:
                server.state.apply(delta)
            except ValueError:
                # The functions in it were named by a delta that is lost.
                assert server.state.lost_deltas > 0
                self.orphans.update(self.marks_of(server.number, delta))
                server.unnamed.add((delta.agent, delta.sequence))
            server.read += 1
        server.acknowledged |= server.state.acknowledgements()

    def serve_all(self) -> None:
        for server in self.servers:
            self.serve(server.number, len(server.stream))

    @rule(part=any_part)
    def save(self, part: int) -> None:
        server = self.server(part)
        server.saved = msgspec.msgpack.encode(server.state.save())
        server.state.is_saved()
        del server.stream[: server.read]
        server.read = 0

    @rule(part=any_part)
    def server_dies(self, part: int) -> None:
        server = self.server(part)
        server.state = ServerState(part=server.number)
        if server.saved is not None:
            server.state.restore(msgspec.msgpack.decode(server.saved, type=SavedState))
        server.begin_reading()

    @rule()
    def broker_dies(self) -> None:
        for server in self.servers:
            server.stream.clear()
            server.acknowledged.clear()
            server.begin_reading()

    @rule(part=any_part, at=entries)
    def lose(self, part: int, at: int) -> None:
        server = self.server(part)
        del server.stream[server.read + at : server.read + at + 1]

    @rule(part=any_part, at=entries)
    def duplicate(self, part: int, at: int) -> None:
        server = self.server(part)
        server.stream += server.stream[at : at + 1]

    @rule(part=any_part, at=entries)
    def overtake(self, part: int, at: int) -> None:
        server = self.server(part)
        at += server.read
        server.stream[at : at + 2] = server.stream[at : at + 2][::-1]

    def put(self, deltas: Mapping[int, list[Delta]]) -> None:
        for part, of_part in deltas.items():
            for delta in of_part:
                self.note_sent(part, delta)
                self.servers[part].stream.append(msgspec.msgpack.encode(delta))

    def note_sent(self, part: int, delta: Delta) -> None:
        self.servers[part].sent[delta.agent, delta.sequence] = self.marks_of(part, delta)

    def teardown(self) -> None:
        """Let everything arrive; then each step counts once, or only a dead agent could have reported it."""
        for _ in range(3):
            for number in range(AGENTS):
                self.send(number)
                self.send_again(number)
            self.serve_all()
            for server in self.servers:
                self.save(server.number)
                self.serve(server.number, 1)
        for number, one in enumerate(self.agents):
            self.receive(number)
            assert not (one.outbox or one.unsaved.all())
            assert one.unsaved.contained == one.statistics.round
        for server in self.servers:
            self.check(server)

    def check(self, server: ServerPart) -> None:
        """What one part knows: of a delta all, or nothing."""
        found = moments_of(server.state)
        learned = {step.mark(server.number): step for step in self.learned}
        present = found.keys() & learned.keys()
        assert learned.keys() - present <= self.orphans
        assert all(found[mark].n == 1 for mark in present)
        lost = {place for place, marks in server.sent.items() if not present & set(marks)}
        assert len(lost - server.unnamed) <= server.state.lost_deltas <= len(lost)
        steps = [learned[mark] for mark in present]
        if server.number == part_of_function(0, COMMON, self.parts):
            expected = Moments.of([step.runtime_us for step in steps])
            common = found.get(COMMON, Moments())
            assert common.n == expected.n
            close = pytest.approx((expected.mean, expected.m2), rel=1e-12, abs=1e-9)
            assert (common.mean, common.m2) == close
        else:
            assert COMMON not in found
        counted = {rank.rank: rank.steps for rank in server.state.snapshot().ranks}
        assert counted == (Counter(step.rank for step in steps) if server.number == 0 else {})
        timers = np.frombuffer(server.state.timers().rows, TIMER)
        assert {row["rank"]: row["calls"] for row in timers} == counted
        of_ranks = {row["rank"]: row["exclusive_us"] for row in timers}
        for rank in counted:
            assert of_ranks[rank] == sum(step.runtime_us for step in steps if step.rank == rank)


class ExactlyOnceInParts(ExactlyOnce):
    """The server is two processes, each of which dies alone."""

    parts = 2


def moments_of(server: ServerState) -> dict[str, Moments]:
    """What the server has learned, by function."""
    server.name_programs({0: "program"})
    functions, table = server.learned()
    rows = zip(functions, table, strict=True)
    return {name: Moments.from_row(row[EXCLUSIVE]) for (_, name), row in rows if row[EXCLUSIVE][0] > 0}


TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = settings(max_examples=100 * ROUNDS, stateful_step_count=60, deadline=None)
TestExactlyOnceInParts = ExactlyOnceInParts.TestCase
TestExactlyOnceInParts.settings = settings(max_examples=60 * ROUNDS, stateful_step_count=60, deadline=None)
