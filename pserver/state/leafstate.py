"""State of a leaf server: deltas of some agents, merged into fewer ones for the server above.

A pure core: deltas of agents, or of leaves below, in; one delta of all and acknowledgements out. What it
holds may be lost: agents send again what the server above has not saved, and that knows how far it is with
each. Only the names that agents gave their functions are kept elsewhere, as these are sent once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from chimbuko.core.arrays import Int64Array, Rows
from chimbuko.core.calls.pathtable import PATH, PathTable
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.kernels.paths import NONE
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS, merged
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.pserver.state.knownagents import KnownAgent, KnownAgents
from chimbuko.pserver.state.runtelemetry import renumbered
from chimbuko.pserver.state.serverstate import highest_number
from chimbuko.runtime.protocol.messages import Acknowledgement, ContainedDeltas, Delta, FunctionName
from chimbuko.runtime.protocol.telemetry import (
    BEGUN,
    FLAGGED,
    PACE,
    TIMER,
    ProgramPaths,
    StreamCounters,
    TelemetryDelta,
)

Place = tuple[int, int]
"""Incarnation and sequence number of an agent."""


class NamedFunctions(msgspec.Struct, frozen=True, array_like=True):
    """Functions that an agent has numbered, in this order."""

    incarnation: int
    functions: list[tuple[int, str]]


class _Contained(msgspec.Struct):
    """Deltas of one agent in a round."""

    place: Place
    is_leaf: bool
    names: list[FunctionName] = msgspec.field(default_factory=list)
    paces: list[bytes] = msgspec.field(default_factory=list)
    telemetry: TelemetryDelta = TelemetryDelta()

    def deltas(self) -> ContainedDeltas:
        telemetry = msgspec.structs.replace(self.telemetry, paces=b"".join(self.paces))
        return ContainedDeltas(*self.place, self.names, telemetry, self.is_leaf)


class _Round:
    """Deltas that are merged and not sent yet."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._table = schema.empty(64)
        self._is_mentioned = np.zeros(64, np.bool_)
        self._steps: list[StepCount] = []
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._rows: dict[str, list[Rows]] = {"flagged": [], "flagged_steps": [], "begun": [], "timers": []}
        self._traffic: list[bytes] = []
        self._counters: list[StreamCounters] = []
        self._paths: dict[int, PathTable] = {}
        self.contained: dict[str, _Contained] = {}

    def merge(self, delta: Delta, numbers: Int64Array, functions: int) -> None:
        """Merge a delta.

        Parameters
        ----------
        numbers
            Leaf server's numbers of the sender's functions.
        functions
            Number of functions that it has numbered.

        Raises
        ------
        ValueError
            The delta is damaged; of its statistics nothing was added.
        """
        if functions > len(self._is_mentioned):
            self._table = self._schema.grown(self._table, functions)
            self._is_mentioned = np.append(
                self._is_mentioned, np.zeros(len(self._table) - len(self._is_mentioned), np.bool_)
            )
        own = np.frombuffer(delta.rows, np.int32)
        if len(own):
            self._schema.merge_packed(self._table, numbers[own], delta.table)
            self._is_mentioned[numbers[own]] = True
        self._steps += delta.steps
        self._health |= {(one.program, one.rank): one for one in delta.health}
        telemetry = delta.telemetry
        for name, dtype in (
            *(("flagged", FLAGGED), ("flagged_steps", FLAGGED_STEPS), ("begun", BEGUN), ("timers", TIMER)),
        ):
            if content := getattr(telemetry, name):
                self._rows[name].append(renumbered(np.frombuffer(content, dtype), numbers))
        self._traffic.append(telemetry.traffic)
        self._counters += telemetry.counters
        for paths in telemetry.paths:
            self._merge_paths(paths, numbers)

    def note(self, name: str, contained: ContainedDeltas, numbers: Int64Array) -> None:
        """Note what is an agent's alone; ``numbers`` are the leaf's of the functions in it."""
        place = contained.incarnation, contained.sequence
        known = self.contained.get(name)
        if known is None or known.place[0] != contained.incarnation:
            before, known = known, _Contained(place, contained.is_leaf)
            if before is not None:
                known.paces, known.telemetry = before.paces, before.telemetry
            self.contained[name] = known
        known.place = place
        known.names += contained.names
        telemetry = contained.telemetry
        if telemetry.paces:
            known.paces.append(renumbered(np.frombuffer(telemetry.paces, PACE), numbers).tobytes())
        known.telemetry = TelemetryDelta(
            figures=telemetry.figures or known.telemetry.figures,
            node=telemetry.node or known.telemetry.node,
        )

    def delta(self, head: Delta) -> Delta:
        """Return all as one delta, which begins as ``head`` does."""
        mentioned = np.flatnonzero(self._is_mentioned)
        rows = self._rows
        begun = np.concatenate([np.zeros(0, BEGUN), *rows["begun"]])
        functions, at = np.unique(begun["function"], return_inverse=True)
        added = np.zeros(len(functions), BEGUN)
        added["function"] = functions
        np.add.at(added["calls"], at, begun["calls"])
        telemetry = TelemetryDelta(
            flagged=b"".join(one.tobytes() for one in rows["flagged"]),
            traffic=b"".join(self._traffic),
            counters=self._counters,
            paths=[ProgramPaths(program, paths.rows.tobytes()) for program, paths in self._paths.items()],
            flagged_steps=merged(*rows["flagged_steps"]).tobytes() if rows["flagged_steps"] else b"",
            timers=b"".join(one.tobytes() for one in rows["timers"]),
            begun=added.tobytes(),
        )
        return msgspec.structs.replace(
            head,
            rows=mentioned.astype(np.int32).tobytes(),
            table=self._schema.pack(self._table[mentioned]),
            steps=self._steps,
            health=list(self._health.values()),
            telemetry=telemetry,
            contained={name: one.deltas() for name, one in self.contained.items()},
        )

    def _merge_paths(self, paths: ProgramPaths, numbers: Int64Array) -> None:
        rows = np.frombuffer(paths.rows, PATH).copy()
        if rows["function"][1:].min(initial=0) <= NONE:
            raise ValueError("call paths of functions that the agent has not named")
        rows["function"][1:] = numbers[rows["function"][1:]]
        self._paths.setdefault(paths.program, PathTable()).add(rows)


class LeafState:
    """Merged state of the agents of a leaf server, until it is sent and saved by the server above.

    Parameters
    ----------
    name
        Name under which it sends deltas, as an agent does.
    incarnation
        Number that is higher than that of any leaf server before this one.
    """

    def __init__(self, name: str, incarnation: int, schema: TableSchema) -> None:
        self.name = name
        self.incarnation = incarnation
        self._schema = schema
        self._agents = KnownAgents()
        self._numbers: dict[tuple[int, str], int] = {}
        self._unsent_names: list[FunctionName] = []
        self._given: dict[str, NamedFunctions] = {}
        self.are_names_new = False
        """Whether agents have numbered functions since this was last set to False: whoever keeps them does so
        before the next delta is sent.
        """
        self._round = _Round(schema)
        self._lost = 0
        self._sequence = 0
        self._unsaved: dict[int, tuple[Delta, dict[str, Place]]] = {}
        """Deltas that the server above has not saved, by number, each with what it contains."""
        self._merged_to = 0
        self._merged: dict[str, Place] = {}
        self._saved: dict[str, Place] = {}

    @property
    def agents(self) -> int:
        """Number of agents that send deltas here."""
        return len(self._agents)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be sent or saved."""
        return not self._round.contained and not self._unsaved

    @property
    def has_news(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._round.contained)

    @property
    def underway(self) -> int:
        """Number of deltas that are sent, and not merged by the server above."""
        return self._sequence - self._merged_to

    @property
    def names(self) -> dict[str, NamedFunctions]:
        """Functions that each agent has numbered, for ``restore``."""
        return self._given

    def restore(
        self, acknowledged: Mapping[str, Acknowledgement], names: Mapping[str, NamedFunctions]
    ) -> None:
        """Go on from what the server above has merged, before anything else."""
        for name, place in acknowledged.items():
            contained = ContainedDeltas(place.incarnation, place.merged, [], TelemetryDelta())
            agent = self._agents.take_contained(name, contained)
            given = names.get(name)
            if given is not None and given.incarnation == place.incarnation:
                functions = [FunctionName(at, *named) for at, named in enumerate(given.functions)]
                agent.name_functions(functions, self._number)
                self._given[name] = given
            self._merged[name] = place.incarnation, place.merged
            self._saved[name] = place.incarnation, place.saved
            # What the leaf server before this one has sent came before the greeting, and is saved with it.
            for _, places in self._unsaved.values():
                places[name] = self._merged[name]

    def greeting(self) -> Delta:
        """Return an empty delta, which ends what the leaf server before this one may have sent."""
        self._sequence += 1
        greeting = self._head()
        self._unsaved[self._sequence] = greeting, {}
        return greeting

    def apply(self, delta: Delta) -> bool:
        """Merge one delta; return False if it was merged before, or if one before it is missing.

        Raises
        ------
        ValueError
            The delta is damaged. It counts as merged, so that its agent goes on.
        """
        lost = self._agents.lost_deltas
        agent = self._agents.take(delta, False)
        if agent is None:
            return False
        self._lost += self._agents.lost_deltas - lost
        self._name(agent, delta)
        numbers = agent.global_numbers
        named = np.frombuffer(delta.rows, np.int32).max(initial=-1)
        telemetry = [delta.telemetry, *(one.telemetry for one in delta.contained.values())]
        is_whole = max(named, *map(highest_number, telemetry)) < len(numbers)
        alone = TelemetryDelta()
        if is_whole:
            of = delta.telemetry
            alone = TelemetryDelta(paces=of.paces, figures=of.figures, node=of.node)
        own = ContainedDeltas(delta.incarnation, delta.sequence, delta.names, alone, delta.is_leaf)
        self._round.note(delta.agent, own, numbers)
        if not is_whole:
            raise ValueError("functions that the agent has not named")
        for name, contained in delta.contained.items():
            self._round.note(name, contained, numbers)
        self._round.merge(delta, numbers, len(self._numbers))
        return True

    def next_delta(self) -> Delta | None:
        """Return what was merged since the last one, as a delta; None if there is nothing."""
        if not self._round.contained:
            return None
        self._sequence += 1
        delta = self._round.delta(self._head())
        places = {name: one.place for name, one in self._round.contained.items()}
        self._unsaved[self._sequence] = delta, places
        self._round = _Round(self._schema)
        return delta

    def unmerged(self) -> list[Delta]:
        """Return the deltas that the server above has not merged, in their order."""
        return [delta for number, (delta, _) in self._unsaved.items() if number > self._merged_to]

    def acknowledge(self, of: Acknowledgement) -> dict[str, Acknowledgement]:
        """Learn how far the server above is; return the acknowledgements of agents that change by it.

        It may be behind what it said before, where it has lost its memory.
        """
        if of.incarnation != self.incarnation:
            return {}
        changed: set[str] = set()
        for number, (_, places) in self._unsaved.items():
            if self._merged_to < number <= of.merged:
                self._merged |= places
                changed |= places.keys()
        self._merged_to = of.merged
        for number in [number for number in self._unsaved if number <= of.saved]:
            _, places = self._unsaved.pop(number)
            self._saved |= places
            changed |= places.keys()
        return {name: self._acknowledgement(name) for name in sorted(changed)}

    def acknowledgements(self) -> dict[str, Acknowledgement]:
        """Return the acknowledgements of all agents."""
        return {name: self._acknowledgement(name) for name in self._merged}

    def _acknowledgement(self, name: str) -> Acknowledgement:
        incarnation, merged_to = self._merged[name]
        of, saved_to = self._saved.get(name, (incarnation, 0))
        return Acknowledgement(incarnation, merged_to, saved_to if of == incarnation else 0)

    def _head(self) -> Delta:
        names, self._unsent_names = self._unsent_names, []
        lost, self._lost = self._lost, 0
        first = min(self._unsaved, default=self._sequence)
        empty = self._schema.pack(self._schema.empty(0))
        return Delta(
            *(self.name, self.incarnation, self._sequence, first, {}, names, b"", empty, [], []),
            is_leaf=True,
            lost=lost,
        )

    def _name(self, agent: KnownAgent, delta: Delta) -> None:
        """Note the functions that a sender has numbered, and agents below it."""
        if delta.names:
            # What was kept of the leaf server before this one may be of a delta that comes only now.
            del agent.numbers[delta.names[0].number :]
            agent.name_functions(delta.names, self._number)
        self._keep_names(delta.agent, delta.incarnation, delta.names)
        for name, contained in delta.contained.items():
            self._keep_names(name, contained.incarnation, contained.names)

    def _keep_names(self, name: str, incarnation: int, names: list[FunctionName]) -> None:
        known = self._given.get(name)
        is_known = known is not None and known.incarnation == incarnation
        if names or not is_known:
            before = known.functions if known is not None and is_known else []
            first = names[0].number if names else len(before)
            functions = [*before[:first], *((one.program, one.name) for one in names)]
            self._given[name] = NamedFunctions(incarnation, functions)
            self.are_names_new = True

    def _number(self, program: int, name: str) -> int:
        number = self._numbers.get((program, name))
        if number is None:
            number = self._numbers[program, name] = len(self._numbers)
            self._unsent_names.append(FunctionName(number, program, name))
        return number
