"""State of the parameter server: merged statistics of all agents, and reports of them for others.

A pure core: deltas in; acknowledgements, model updates and frames out. A server that restores the saved state
continues as if nothing had happened: deltas it had not seen by then are sent again, and each is merged once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array, RankKey, distinct
from chimbuko.core.calls.pathtable import PATH
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.schema import PROFILE, TableSchema
from chimbuko.pserver.state.functions import Functions
from chimbuko.pserver.state.knownagents import KnownAgent, KnownAgents
from chimbuko.pserver.state.modelversions import ModelVersions, Published
from chimbuko.pserver.state.rankstatistics import Ranks
from chimbuko.pserver.state.runreport import Report, make_report
from chimbuko.pserver.state.runtelemetry import Telemetry
from chimbuko.pserver.state.savedstate import VERSIONS_PER_SAVE, SavedState
from chimbuko.runtime.protocol.messages import (
    ALL_EPOCHS,
    NO_EPOCH,
    Acknowledgement,
    Delta,
    Frame,
    RunStatistics,
)
from chimbuko.runtime.protocol.partition import part_of_function
from chimbuko.runtime.protocol.telemetry import (
    BEGUN,
    FLAGGED,
    OTHERS,
    PACE,
    TIMER,
    RankTimers,
    SilentAgents,
    TelemetryDelta,
)

FRAMES_PER_FUNCTION = 4
"""Number of frames of which a function without new anomalies is reported in one, the first included."""


class _Changes(msgspec.Struct):
    """Changes since the last frame."""

    ranks: set[int] = msgspec.field(default_factory=set)
    """Changed rows of ``Ranks``."""
    functions: set[int] = msgspec.field(default_factory=set)
    flagged: set[int] = msgspec.field(default_factory=set)
    health: set[RankKey] = msgspec.field(default_factory=set)
    steps: list[StepCount] = msgspec.field(default_factory=list)


class _Unstored(msgspec.Struct):
    """Changes since the last report to the store."""

    functions: set[int] = msgspec.field(default_factory=set)
    health: set[RankKey] = msgspec.field(default_factory=set)


class ServerState:
    """Merged state of all agents; deltas may come in any order of agents, and each counts once.

    Parameters
    ----------
    lockstep_streams
        Number of streams that advance together by epochs; 0 if they do not wait for each other. An epoch
        is closed when all of them have closed it.
    base
        Model of an earlier run: part of the model, but not of this run's statistics.
    is_frozen
        Whether the model is ``base`` and does not change.
    server
        Id that distinguishes this server from one that takes over from it.
    part
        Index of this part of the parameter server; it gets only what is for it.
    parts
        Number of parts; of ``base`` each knows the functions that it merges.
    """

    def __init__(
        self,
        lockstep_streams: int = 0,
        schema: TableSchema = PROFILE,
        base: Model | None = None,
        is_frozen: bool = False,
        server: int = 0,
        part: int = 0,
        parts: int = 1,
    ) -> None:
        self.part = part
        self._parts = parts
        self._schema = schema
        self._lockstep_streams = lockstep_streams
        self.programs: dict[int, str] = {}
        """Names of programs by number."""
        self._base = {} if base is None else dict(zip(base.functions, base.table, strict=True))
        self._agents = KnownAgents()
        self._functions = Functions(schema)
        self._model = ModelVersions(self._functions, schema, lockstep_streams > 0, is_frozen, server)
        self._closed: dict[str, int] = {}
        self._ranks = Ranks()
        self._health: dict[RankKey, StreamHealth] = {}
        self._nodes: dict[RankKey, str] = {}
        """Node of each rank whose pace is compared here."""
        self._telemetry = Telemetry(self._name_of, self._node_of)
        self._changes = _Changes()
        self._unstored = _Unstored()
        self._tick = 0
        self.is_ending = False
        """Whether streams that wait for others are given up: their deltas are not waited for any more."""

    @property
    def is_lockstep(self) -> bool:
        """Whether streams wait for each other, and so for this server."""
        return self._lockstep_streams > 0

    @property
    def lost_deltas(self) -> int:
        """Number of deltas that no agent can send again."""
        return self._agents.lost_deltas

    def note_silent(self, agents: SilentAgents) -> None:
        """Note the agents that the services do not hear any more."""
        self._telemetry.note_silent(agents)

    def name_programs(self, programs: Mapping[int, str]) -> None:
        """Learn the names of programs by number: functions of the base are known from then on."""
        for program, name in programs.items():
            if program in self.programs:
                continue
            self.programs[program] = name
            for (of, function), row in self._base.items():
                if of == name and part_of_function(program, function, self._parts) == self.part:
                    self._functions.begin_with(program, function, row)

    def knows_programs(self, delta: Delta) -> bool:
        """Return whether all programs that a delta refers to have a name here."""
        reported = {name.program for name in delta.names} | {health.program for health in delta.health}
        return reported <= self.programs.keys()

    def apply(self, delta: Delta) -> bool:
        """Merge one delta; return False if it was merged before, or if one before it is missing.

        Raises
        ------
        ValueError
            The delta is damaged. It counts as merged, so that its agent goes on.
        """
        agent = self._agents.take(delta, self._is_early(delta))
        if agent is None:
            return False
        agent.name_functions(delta.names, self._functions.number)
        self._merge(agent, delta)
        for name, contained in delta.contained.items():
            known = self._agents.take_contained(name, contained)
            known.name_functions(contained.names, self._functions.number)
            self._merge_telemetry(name, contained.telemetry, agent.global_numbers)
        self._closed.update(delta.closed_epochs)
        for row, step in self._ranks.count(delta.steps):
            self._changes.ranks.add(row)
            self._changes.steps.append(step)
        for health in delta.health:
            key = health.program, health.rank
            self._health[key] = health
            self._changes.health.add(key)
            self._unstored.health.add(key)
        return True

    def acknowledgements(self) -> dict[str, Acknowledgement]:
        """Return acknowledgements of the agents that have sent something since the last call."""
        return self._agents.acknowledgements()

    def all_acknowledgements(self) -> dict[str, Acknowledgement]:
        """Return acknowledgements of all agents, published or not."""
        return self._agents.all_acknowledgements()

    def publish(self, now_s: float) -> Published | None:
        """Return the changes of the model, or None if there is nothing to publish yet."""
        agents = len(self._agents), self._agents.readers
        return self._model.publish(now_s, self._closed_epoch(), *agents)

    def whole(self) -> Published:
        """Return the whole model, for a broker that has none of it, and all acknowledgements.

        In lockstep it is that of the last closed epoch, else the current one.
        """
        self._agents.acknowledge_all()
        return self._model.whole(len(self._agents))

    def learned(self) -> tuple[list[tuple[str, str]], Float64Array]:
        """Return program and name of each function of which calls are known, and the rows of the model,
        including functions that only the base knows.
        """
        return self._model.learned(self.programs, self._base)

    def frame(self, is_last: bool = False) -> Frame | None:
        """Return the changes since the last frame, or None if there are none; at the end everything."""
        changes = self._changes
        telemetry = self._telemetry.changes(is_last)
        if not (is_last or changes.steps or changes.health or changes.functions or telemetry):
            return None
        self._tick += 1
        if is_last:
            self._changes = _Changes()
            return msgspec.structs.replace(
                self.snapshot(), steps=changes.steps, is_last=True, telemetry=telemetry
            )
        has_all = self._tick % FRAMES_PER_FUNCTION == 1
        functions = changes.functions if has_all else changes.flagged
        self._changes = _Changes(functions=set() if has_all else changes.functions - changes.flagged)
        reported = np.array(sorted(functions), np.int64)
        return Frame(
            tick=self._tick,
            ranks=self._ranks.statistics(np.array(sorted(changes.ranks), np.int64)),
            steps=changes.steps,
            functions=self._functions.statistics(reported),
            health=[self._health[key] for key in sorted(changes.health)],
            is_last=False,
            telemetry=telemetry,
            part=self.part,
        )

    def statistics(self, is_last: bool = False) -> RunStatistics | None:
        """Return, for the store, the changes since the last call, or None if there are none; at the end
        everything.
        """
        unstored, self._unstored = self._unstored, _Unstored()
        functions = np.array(sorted(unstored.functions), np.int64)
        health = sorted(unstored.health)
        paths = self._telemetry.paths.everything() if is_last else self._telemetry.paths.changes()
        models = self._model.take_epoch_models()
        if is_last:
            functions, health = self._functions.called(), list(self._health)
        if is_last or not self._lockstep_streams:
            grown = self._model.grown(functions, is_last)
            last = {(model.version, model.program, model.name) for model in grown}
            models = grown + [one for one in models if (one.version, one.program, one.name) not in last]
        if not (is_last or len(functions) or health or paths or models):
            return None
        return RunStatistics(
            programs=self.programs,
            health=[self._health[key] for key in health],
            functions=self._functions.statistics(functions),
            paths=paths,
            models=models,
            slow_ranks=self._telemetry.slow_ranks(),
            part=self.part,
        )

    def snapshot(self) -> Frame:
        """Return everything as one frame, which the next frame continues."""
        return Frame(
            tick=self._tick,
            ranks=self._ranks.statistics(np.arange(len(self._ranks))),
            steps=[],
            functions=self._functions.statistics(self._functions.called()),
            health=list(self._health.values()),
            is_last=False,
            telemetry=self._telemetry.everything(),
            part=self.part,
        )

    def timers(self) -> RankTimers:
        """Return the runtimes of functions on each rank that is reported here."""
        rows = self._telemetry.timers()
        functions = distinct(rows["function"]).tolist()
        ranks = distinct(rows[["program", "rank"]]).tolist()
        return RankTimers(
            rows.tobytes(),
            self.programs,
            {number: self._name_of(number) for number in functions if number != OTHERS},
            [(program, rank, node) for program, rank in ranks if (node := self._node_of(program, rank))],
        )

    def report(self, model: str) -> Report:
        """Return the final report; ``model`` is the name of the file with the model."""
        paths = self._telemetry.paths.everything()
        return make_report(self.snapshot(), paths, self._functions, self.programs, model, self.lost_deltas)

    def save(self) -> SavedState:
        """Return everything, to be saved; only ``is_saved`` acknowledges it as saved."""
        return SavedState(
            lockstep_streams=self._lockstep_streams,
            programs=self.programs,
            agents=self._agents.save(),
            functions=self._functions.save(),
            closed=self._closed,
            published_epoch=self._model.closed_epoch,
            published=self._model.closed_rows,
            version=self._model.version,
            ranks=self._ranks.save(),
            health=list(self._health.values()),
            telemetry=self._telemetry.dump(),
            tick=self._tick,
            lost_deltas=self.lost_deltas,
        )

    def is_saved(self) -> bool:
        """Note that all merged deltas outlive this process, so that agents may forget them."""
        return self._agents.is_saved()

    def restore(self, saved: SavedState) -> None:
        """Restore the saved state, before anything else."""
        self.programs = dict(saved.programs)
        self._agents.restore(saved.agents, saved.lost_deltas)
        self._functions = Functions.restored(self._schema, saved.functions)
        self._closed = dict(saved.closed)
        # Versions that were published after the save are not used again.
        version = saved.version + VERSIONS_PER_SAVE
        self._model.restore(self._functions, version, saved.published_epoch, saved.published)
        self._ranks = Ranks.restored(saved.ranks)
        self._health = {(health.program, health.rank): health for health in saved.health}
        # Reports to the store since the save are not known here.
        self._unstored.health.update(self._health)
        self._unstored.functions.update(self._functions.called().tolist())
        self._telemetry.restore(saved.telemetry)
        self._tick = saved.tick + VERSIONS_PER_SAVE
        self.is_saved()

    def _name_of(self, number: int) -> str:
        return self._functions.names[number].name

    def _node_of(self, program: int, rank: int) -> str:
        health = self._health.get((program, rank))
        return self._nodes.get((program, rank), "") if health is None else health.node

    def _closed_epoch(self) -> int:
        if len(self._closed) < self._lockstep_streams:
            return NO_EPOCH
        return min(self._closed.values(), default=NO_EPOCH)

    def _is_early(self, delta: Delta) -> bool:
        """Return whether the delta's agent is an epoch ahead of what is published: a server that has lost its
        memory must not publish that epoch to agents that are not there yet. The delta is sent again.
        """
        if not self._lockstep_streams or self.is_ending:
            return False
        before = min((self._closed.get(stream, NO_EPOCH) for stream in delta.closed_epochs), default=NO_EPOCH)
        return self._model.closed_epoch < before < ALL_EPOCHS

    def _merge(self, agent: KnownAgent, delta: Delta) -> None:
        own = np.frombuffer(delta.rows, np.int32)
        telemetry = [delta.telemetry, *(one.telemetry for one in delta.contained.values())]
        if max(own.max(initial=-1), *map(highest_number, telemetry)) >= len(agent.numbers):
            raise ValueError("functions that the agent has not named")
        # Most deltas are empty, as converged functions are held back. Without these tests they take 15 µs
        # more.
        if len(own):
            rows = agent.global_numbers[own]
            self._functions.merge(rows, delta.table)
            self._changes.functions.update(rows.tolist())
            self._unstored.functions.update(rows.tolist())
        if delta.telemetry.flagged:
            flagged = np.frombuffer(delta.telemetry.flagged, FLAGGED)
            numbers = agent.global_numbers[flagged["function"]]
            self._functions.flag(numbers, flagged)
            self._changes.functions.update(numbers.tolist())
            self._unstored.functions.update(numbers.tolist())
            self._changes.flagged.update(numbers.tolist())
        if delta.telemetry.flagged_steps:
            steps = np.frombuffer(delta.telemetry.flagged_steps, FLAGGED_STEPS)
            self._functions.flag_steps(agent.global_numbers[steps["function"]], steps)
        if delta.telemetry.begun:
            begun = np.frombuffer(delta.telemetry.begun, BEGUN)
            numbers = agent.global_numbers[begun["function"]]
            self._functions.begin_calls(numbers, begun["calls"])
            known = self._functions.of_counted(numbers)
            self._changes.functions.update(known)
            self._unstored.functions.update(known)
        self._merge_telemetry(delta.agent, delta.telemetry, agent.global_numbers)

    def _merge_telemetry(self, name: str, telemetry: TelemetryDelta, numbers: Int64Array) -> None:
        """Merge what is reported beside the statistics; ``numbers`` are those of the sender's functions."""
        if telemetry.node:
            paces = np.frombuffer(telemetry.paces, PACE)
            ranks = zip(paces["program"].tolist(), paces["rank"].tolist(), strict=True)
            self._nodes.update(dict.fromkeys(ranks, telemetry.node))
        self._telemetry.take(name, telemetry, numbers)


def highest_number(telemetry: TelemetryDelta) -> int:
    """Return the highest of the agent's function numbers in a delta; -1 if there is none."""
    parts = (
        (telemetry.flagged, FLAGGED),
        (telemetry.flagged_steps, FLAGGED_STEPS),
        (telemetry.begun, BEGUN),
        (telemetry.paces, PACE),
        (telemetry.timers, TIMER),
    )
    contents = [*parts, *((paths.rows, PATH) for paths in telemetry.paths)]
    numbers = [np.frombuffer(content, dtype)["function"].max() for content, dtype in contents if content]
    return int(max(numbers, default=-1))
