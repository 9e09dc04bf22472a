"""Agents as the server knows them: which of their deltas are merged, and which of those are saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.pserver.state.savedstate import SavedAgent
from chimbuko.runtime.protocol.messages import Acknowledgement, ContainedDeltas, Delta, FunctionName


class KnownAgent(msgspec.Struct):
    """State of one agent at the server."""

    incarnation: int = -1
    sequence: int = 0
    numbers: list[int] = msgspec.field(default_factory=list)
    """Global number of each of the agent's function numbers."""
    global_numbers: Int64Array = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    """Global number of each of the agent's function numbers, as an array."""
    is_leaf: bool = False
    """Whether it is a leaf server, and no agent."""
    is_below: bool = False
    """Whether it is known by way of a leaf server, which also brings it the model."""

    def name_functions(self, names: list[FunctionName], number_of: Callable[[int, str], int]) -> None:
        """Note functions that the agent has numbered; ``number_of`` gives the global number of a program's
        function.
        """
        if names:
            self.numbers += [number_of(name.program, name.name) for name in names]
            self.global_numbers = np.array(self.numbers, np.int64)


class KnownAgents:
    """All agents of a run; their deltas are merged in order, each once."""

    def __init__(self) -> None:
        self._agents: dict[str, KnownAgent] = {}
        self._merged_now: set[str] = set()
        self._saved: dict[str, tuple[int, int]] = {}
        """Incarnation and sequence number, by agent, up to which its deltas are saved."""
        self._untold: dict[str, tuple[int, int]] = {}
        """Saved incarnation and sequence number, by agent, where the agent has not heard of it yet."""
        self.lost_deltas = 0
        """Number of deltas that no agent can send again."""

    def __len__(self) -> int:
        return sum(not agent.is_leaf for agent in self._agents.values())

    @property
    def readers(self) -> int:
        """Number of those that fetch the model here."""
        return sum(not agent.is_below for agent in self._agents.values())

    def take(self, delta: Delta, is_early: bool) -> KnownAgent | None:
        """Return the agent whose delta is to be merged; None if the delta was merged before, or one before it
        is missing.

        Parameters
        ----------
        is_early
            Whether the delta is not to be merged yet.
        """
        agent = self._agents.setdefault(delta.agent, KnownAgent())
        if delta.incarnation < agent.incarnation:
            return None
        self._merged_now.add(delta.agent)
        is_successor = delta.incarnation > agent.incarnation
        missing = delta.sequence - agent.sequence - 1
        # A successor continues the numbers, unless it knows nothing of its predecessor.
        is_first = delta.sequence == delta.since and (missing > 0 or is_successor)
        if (missing != 0 and not is_first) or is_early:
            return None
        if is_successor:
            agent = self._agents[delta.agent] = KnownAgent(delta.incarnation, is_leaf=delta.is_leaf)
        self.lost_deltas += max(missing, 0) + delta.lost
        agent.sequence = delta.sequence
        return agent

    def take_contained(self, name: str, contained: ContainedDeltas) -> KnownAgent:
        """Return the agent some of whose deltas came with those of others."""
        agent = self._agents.get(name)
        if agent is None or contained.incarnation > agent.incarnation:
            agent = self._agents[name] = KnownAgent(contained.incarnation, is_leaf=contained.is_leaf)
        agent.sequence, agent.is_below = contained.sequence, True
        self._merged_now.add(name)
        return agent

    def acknowledgements(self) -> dict[str, Acknowledgement]:
        """Return acknowledgements of the agents that have sent something since the last call."""
        found = {name: self._acknowledgement(name) for name in self._merged_now}
        for name in found:
            self._untold.pop(name, None)
        self._merged_now.clear()
        return found

    def all_acknowledgements(self) -> dict[str, Acknowledgement]:
        """Return acknowledgements of all agents, published or not."""
        return {name: self._acknowledgement(name) for name in self._agents}

    def acknowledge_all(self) -> None:
        """Make the next acknowledgements those of all agents."""
        self._merged_now.update(self._agents)

    def is_saved(self) -> bool:
        """Note that all merged deltas outlive this process; return whether all agents have heard of it."""
        now = {name: (agent.incarnation, agent.sequence) for name, agent in self._agents.items()}
        # An agent that sends again learns of the save with its next delta: 10,000 agents would be told twice.
        self._merged_now.update(
            name for name, place in self._saved.items() if self._untold.get(name) == place
        )
        self._untold = {name: place for name, place in now.items() if self._saved.get(name) != place}
        self._saved = now
        return not self._untold

    def save(self) -> dict[str, SavedAgent]:
        """Return the state of each agent by its name, to be saved."""
        return {
            name: SavedAgent(agent.incarnation, agent.sequence, agent.global_numbers.tobytes(), agent.is_leaf)
            for name, agent in self._agents.items()
        }

    def restore(self, saved: Mapping[str, SavedAgent], lost_deltas: int) -> None:
        """Restore the saved state."""
        for name, agent in saved.items():
            numbers = np.frombuffer(agent.numbers, np.int64)
            self._agents[name] = KnownAgent(
                agent.incarnation, agent.sequence, numbers.tolist(), numbers, agent.is_leaf
            )
        self.lost_deltas = lost_deltas

    def _acknowledgement(self, name: str) -> Acknowledgement:
        agent = self._agents[name]
        incarnation, sequence = self._saved.get(name, (agent.incarnation, 0))
        saved = sequence if incarnation == agent.incarnation else 0
        return Acknowledgement(agent.incarnation, agent.sequence, saved)
