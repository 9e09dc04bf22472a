"""Agents and server lose each other, their memories and what was on its way: each step still counts once."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from chimbuko.ad.analysis.statistics import Learned
from chimbuko.ad.modelsync.merging import AgentStatistics, Outgoing, Part
from chimbuko.ad.modelsync.pendingdeltas import PendingDeltas
from chimbuko.calls.record import StepCount
from chimbuko.protocol.messages import Acknowledgement, Delta
from chimbuko.pserver.state.checkpoint import SavedState
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.statistics.moments import Moments
from chimbuko.statistics.schema import PROFILE

ROUNDS = int(os.environ.get("CHIMBUKO_FAULTS_ROUNDS", "1"))
"""More in ``make faults``."""
AGENTS = 2
EXCLUSIVE = PROFILE.slices["exclusive_us"]
COMMON = "solve"
"""Called in each step; beside it each step has a function of its own, called once."""

agents = st.integers(0, AGENTS - 1)
entries = st.integers(0, 100)


@dataclass(frozen=True)
class Step:
    """What one step has taught."""

    rank: int
    number: int
    runtime_us: int

    @property
    def mark(self) -> str:
        """The function that is called in this step only."""
        return f"step {self.number} of rank {self.rank}"

    @property
    def part(self) -> Part:
        """What an agent takes from the stream's process."""
        table = PROFILE.empty(2)
        table[:, EXCLUSIVE] = Moments.of([self.runtime_us]).row()
        count = StepCount(0, self.rank, self.number, 0, 9, 2, 0, 0.0)
        return Part(0, self.rank, {0: COMMON, 1: self.mark}, Learned(np.arange(2), table), [count])


@dataclass
class Agent:
    """An agent with one stream, and what outlives it: the stream's outbox and the log of deltas."""

    number: int
    incarnation: int = 0
    steps: int = 0
    outbox: list[Step] = field(default_factory=list)
    generation: int = 0
    delta_log: list[tuple[Delta, int]] = field(default_factory=list)
    """Deltas that are not merged yet, and the generation of the outbox that each took."""

    def __post_init__(self) -> None:
        self.begin()

    @property
    def name(self) -> str:
        return f"agent{self.number}"

    def begin(self) -> None:
        """A process takes over from one that died."""
        self.incarnation += 1
        self.statistics = AgentStatistics(self.name, self.incarnation, PROFILE)
        self.unsaved = PendingDeltas(self.logged)
        if self.delta_log:
            last, generation = self.delta_log[-1]
            self.statistics.follow(last)
            if generation == self.generation:
                self.empty_outbox()

    @property
    def logged(self) -> list[Delta]:
        """What a successor sends."""
        return [delta for delta, _ in self.delta_log]

    def learn(self, runtime_us: int) -> Step:
        step = Step(self.number, self.steps, runtime_us)
        self.outbox.append(step)
        self.steps += 1
        return step

    def next_delta(self) -> Outgoing | None:
        """What is to be sent, which is in the log of deltas from now on, and still in the outbox."""
        outgoing = self.statistics.next_delta([step.part for step in self.outbox], {})
        if outgoing is not None:
            waiting = [one for one in self.delta_log if not self.unsaved.is_merged(one[0])]
            self.delta_log = [*waiting, (outgoing.delta, self.generation)]
        return outgoing

    def empty_outbox(self) -> None:
        self.outbox.clear()
        self.generation += 1


class ExactlyOnce(RuleBasedStateMachine):
    """Everything that can go wrong on the way, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.agents = [Agent(number) for number in range(AGENTS)]
        self.learned: dict[str, Step] = {}
        """By mark."""
        self.orphans: set[str] = set()
        """Marks in deltas that only a dead agent could have sent again; the server had not saved them."""
        self.sent: dict[tuple[str, int], list[str]] = {}
        """Agent and number of each delta, and the marks in it."""
        self.unnamed: set[tuple[str, int]] = set()
        """Deltas whose functions were named in lost ones."""
        self.stream: list[bytes] = []
        """In the broker."""
        self.acknowledged: dict[str, Acknowledgement] = {}
        """In the broker."""
        self.read = 0
        self.saved: bytes | None = None
        self.server = ServerState()

    @rule(agent=agents, runtimes_us=st.lists(st.integers(1, 1000), min_size=1, max_size=3))
    def learn(self, agent: int, runtimes_us: list[int]) -> None:
        steps = [self.agents[agent].learn(runtime_us) for runtime_us in runtimes_us]
        self.learned |= {step.mark: step for step in steps}

    @rule(agent=agents, runtime_us=st.integers(1, 1000))
    def learn_and_report(self, agent: int, runtime_us: int) -> None:
        """All goes well."""
        self.learn(agent, [runtime_us])
        self.send(agent)
        self.serve(len(self.stream))
        self.receive(agent)

    @rule(agent=agents)
    def send(self, agent: int) -> None:
        one = self.agents[agent]
        self.receive(agent)
        if one.unsaved.is_waiting:
            return
        outgoing = one.next_delta()
        if outgoing is not None:
            one.empty_outbox()
            self.put(one.unsaved.add(outgoing.delta))

    @rule(agent=agents, is_emptied=st.booleans())
    def agent_dies_while_it_sends(self, agent: int, is_emptied: bool) -> None:
        one = self.agents[agent]
        if not one.unsaved.is_waiting and one.next_delta() is not None and is_emptied:
            one.empty_outbox()
        kept = {delta.sequence for delta in one.logged}
        lost = [delta for delta in one.unsaved.all() if delta.sequence not in kept]
        self.orphans |= {mark for delta in lost for mark in marks_of(delta)}
        one.begin()

    @rule(agent=agents)
    def secure(self, agent: int) -> None:
        """The server does not answer, and the agent may be killed soon."""
        one = self.agents[agent]
        outgoing = one.next_delta()
        if outgoing is not None:
            one.empty_outbox()
            self.sent[one.name, outgoing.delta.sequence] = marks_of(outgoing.delta)
            one.unsaved.add(outgoing.delta)
        logged = {delta.sequence: (delta, generation) for delta, generation in one.delta_log}
        one.delta_log = [
            logged.get(delta.sequence, (delta, -1)) for delta in one.unsaved.all()
        ] or one.delta_log

    @rule(agent=agents)
    def rescue(self, agent: int) -> None:
        """What an agent has left is merged by others, and the agent goes on."""
        self.secure(agent)
        for delta in PendingDeltas(self.agents[agent].logged).all():
            self.put(delta)

    @rule(agent=agents)
    def send_again(self, agent: int) -> None:
        for delta in self.agents[agent].unsaved.all():
            self.put(delta)

    @rule(agent=agents)
    def receive(self, agent: int) -> None:
        one = self.agents[agent]
        acknowledged = self.acknowledged.get(one.name)
        if acknowledged is not None and not one.unsaved.acknowledge(acknowledged):
            self.send_again(agent)

    @rule(count=st.integers(1, 3))
    def serve(self, count: int) -> None:
        for entry in self.stream[self.read : self.read + count]:
            delta = msgspec.msgpack.decode(entry, type=Delta)
            try:
                self.server.apply(delta)
            except ValueError:
                # The functions in it were named by a delta that is lost.
                assert self.server.lost_deltas > 0
                self.orphans.update(marks_of(delta))
                self.unnamed.add((delta.agent, delta.sequence))
            self.read += 1
        self.acknowledged |= self.server.acknowledgements()

    @rule()
    def save(self) -> None:
        self.saved = msgspec.msgpack.encode(self.server.save())
        self.server.is_saved()
        del self.stream[: self.read]
        self.read = 0

    @rule()
    def server_dies(self) -> None:
        self.server = ServerState()
        if self.saved is not None:
            self.server.restore(msgspec.msgpack.decode(self.saved, type=SavedState))
        self.begin_reading()

    @rule()
    def broker_dies(self) -> None:
        self.stream.clear()
        self.acknowledged.clear()
        self.begin_reading()

    def begin_reading(self) -> None:
        """What the server does at first, and when the broker was away."""
        self.read = 0
        self.server.whole()
        self.acknowledged = self.server.acknowledgements()

    @rule(at=entries)
    def lose(self, at: int) -> None:
        del self.stream[self.read + at : self.read + at + 1]

    @rule(at=entries)
    def duplicate(self, at: int) -> None:
        self.stream += self.stream[at : at + 1]

    @rule(at=entries)
    def overtake(self, at: int) -> None:
        at += self.read
        self.stream[at : at + 2] = self.stream[at : at + 2][::-1]

    def put(self, delta: Delta) -> None:
        self.sent[delta.agent, delta.sequence] = marks_of(delta)
        self.stream.append(msgspec.msgpack.encode(delta))

    def teardown(self) -> None:
        """Let everything arrive; then each step counts once, or only a dead agent could have reported it."""
        for _ in range(3):
            for number in range(AGENTS):
                self.send(number)
                self.send_again(number)
            self.serve(len(self.stream))
            self.save()
            self.serve(1)
        for number, one in enumerate(self.agents):
            self.receive(number)
            assert not (one.outbox or one.unsaved.all())
        found = moments_of(self.server)
        present = found.keys() & self.learned.keys()
        assert self.learned.keys() - present <= self.orphans
        assert all(found[mark].n == 1 for mark in present)
        lost = {place for place, marks in self.sent.items() if not present & set(marks)}
        assert len(lost - self.unnamed) <= self.server.lost_deltas <= len(lost)
        steps = [self.learned[mark] for mark in present]
        expected = Moments.of([step.runtime_us for step in steps])
        common = found.get(COMMON, Moments())
        assert common.n == expected.n
        assert (common.mean, common.m2) == pytest.approx((expected.mean, expected.m2), rel=1e-12, abs=1e-9)
        frame = self.server.snapshot()
        assert {rank.rank: rank.steps for rank in frame.ranks} == Counter(step.rank for step in steps)


def marks_of(delta: Delta) -> list[str]:
    """Functions that are called in one step only, of the steps in a delta."""
    return [Step(step.rank, step.step, 0).mark for step in delta.steps]


def moments_of(server: ServerState) -> dict[str, Moments]:
    """What the server has learned, by function."""
    server.name_programs({0: "program"})
    functions, table = server.learned()
    rows = zip(functions, table, strict=True)
    return {name: Moments.from_row(row[EXCLUSIVE]) for (_, name), row in rows if row[EXCLUSIVE][0] > 0}


TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = settings(max_examples=150 * ROUNDS, stateful_step_count=60, deadline=None)
