"""The parameter server's state: statistics of all agents merged, and what others want to know of them.

A pure core: deltas in; acknowledgements, model updates and frames out. Saved, and restored, it goes on
as it was; deltas it had not seen by then are sent again, and each is merged once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from chimbuko.arrays import Float64Array, Int64Array, RankKey
from chimbuko.calls.callpaths import PATH
from chimbuko.calls.record import StepCount, StreamHealth
from chimbuko.protocol.messages import (
    ALL_EPOCHS,
    NO_EPOCH,
    Acknowledgement,
    Delta,
    Frame,
    FunctionModel,
    FunctionName,
    ModelUpdate,
    RunStatistics,
)
from chimbuko.protocol.telemetry import FLAGGED, PACE, SilentAgents, TelemetryDelta
from chimbuko.pserver.state.checkpoint import VERSIONS_PER_SAVE, SavedAgent, SavedState
from chimbuko.pserver.state.functions import Functions
from chimbuko.pserver.state.ranks import Ranks
from chimbuko.pserver.state.runreport import Report, make_report
from chimbuko.pserver.state.telemetry import Telemetry
from chimbuko.statistics.convergence import HELD_PERIODS
from chimbuko.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.statistics.model import Model
from chimbuko.statistics.packed import PackedTable
from chimbuko.statistics.schema import PROFILE, TableSchema

MODEL_GROWTH = 1.5
"""Where a function's calls have grown by so much its model goes to the store. All versions of a function
called a million times are 34 then; at 1.1 they were 145, a third of all that a short run stores."""
HELD_S = float(HELD_PERIODS)
"""Live, agents hear so seldom of functions of which enough is known."""
ROWS_PER_S = 100_000
"""Rows of other functions, 1 kB each, that agents may fetch: a tenth of what a broker can give. So much is
told to few agents 20 times a second, and 500 functions to 250 agents each 1.2 s."""
LONGEST_PAUSE_S = 5.0
"""But no more seldom."""
EPOCH_S = 1.0
"""Live, old calls are forgotten so often; in lockstep with each epoch."""
FRAMES_PER_FUNCTION = 4
"""A function that has no new anomalies is reported in each fourth frame only, the first included."""


@dataclass
class _Agent:
    """What the server knows of one agent."""

    incarnation: int = -1
    sequence: int = 0
    numbers: list[int] = field(default_factory=list)
    """The agent's function numbers to global ones."""
    global_numbers: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    """The same."""


@dataclass
class _Changes:
    """What changed since the last frame."""

    ranks: set[int] = field(default_factory=set)
    """Rows of ``Ranks``."""
    functions: set[int] = field(default_factory=set)
    flagged: set[int] = field(default_factory=set)
    health: set[RankKey] = field(default_factory=set)
    steps: list[StepCount] = field(default_factory=list)


@dataclass
class _Unstored:
    """What changed since the last report to the store."""

    functions: set[int] = field(default_factory=set)
    health: set[RankKey] = field(default_factory=set)
    models: list[FunctionModel] = field(default_factory=list)
    """Of epochs that have been closed; of a run without epochs none."""


@dataclass(frozen=True)
class Published:
    """A version of the model as it goes out."""

    update: ModelUpdate
    rows: list[tuple[int, PackedTable]]
    """Functions that have a new row, and the rows."""
    names: list[FunctionName]
    """Functions that have a number since the last version."""


class ServerState:
    """Merges deltas in any order of agents, each exactly once.

    Parameters
    ----------
    lockstep_streams
        Number of streams that advance together by epochs; 0 where they do not wait for each other.
        An epoch is closed when all of them have closed it.
    base
        What an earlier run has learned: part of the model, but not of this run's statistics.
    is_frozen
        The model is ``base`` and stays as it is.
    server
        Distinguishes this server from one that takes over from it.
    """

    def __init__(
        self,
        lockstep_streams: int = 0,
        schema: TableSchema = PROFILE,
        base: Model | None = None,
        is_frozen: bool = False,
        server: int = 0,
    ) -> None:
        self._server = server
        self._schema = schema
        self._lockstep_streams = lockstep_streams
        self._is_frozen = is_frozen
        self.programs: dict[int, str] = {}
        """Names, by number."""
        self._base = {} if base is None else dict(zip(base.functions, base.table, strict=True))
        self._agents: dict[str, _Agent] = {}
        self._functions = Functions(schema)
        self._calls_at = schema.slices["exclusive_us"].start
        self._closed: dict[str, int] = {}
        self._version = 0
        self._published_epoch = NO_EPOCH
        self._published: dict[int, PackedTable] = {}
        """In lockstep: rows of the model as last published. Those of now may contain more already."""
        self._named = 0
        """How many functions were named in updates."""
        self._epoch_at_s = self._publish_at_s = 0.0
        self._merged_now: set[str] = set()
        self._saved: dict[str, tuple[int, int]] = {}
        """Agent to incarnation and sequence of what is saved of it."""
        self._untold: dict[str, tuple[int, int]] = {}
        """Agent to incarnation and sequence of what is saved of it, where the agent has not heard of that."""
        self._ranks = Ranks()
        self._health: dict[RankKey, StreamHealth] = {}
        self._telemetry = Telemetry(self._name_of, self._node_of)
        self._changes = _Changes()
        self._unstored = _Unstored()
        self._tick = 0
        self.lost_deltas = 0
        """Deltas that no agent can send again."""

    @property
    def is_lockstep(self) -> bool:
        """Whether streams wait for each other, and so for this server."""
        return self._lockstep_streams > 0

    def note_silent(self, agents: SilentAgents) -> None:
        """Agents of which nothing is heard, as the services say."""
        self._telemetry.note_silent(agents)

    def name_programs(self, programs: Mapping[int, str]) -> None:
        """Learn the names of programs by number: functions of the base are known from then on."""
        for program, name in programs.items():
            if program in self.programs:
                continue
            self.programs[program] = name
            for (of, function), row in self._base.items():
                if of == name:
                    self._functions.begin_with(program, function, row)

    def knows_programs(self, delta: Delta) -> bool:
        """Whether all programs that a delta names have a name here."""
        reported = {name.program for name in delta.names} | {health.program for health in delta.health}
        return reported <= self.programs.keys()

    def apply(self, delta: Delta) -> bool:
        """Merge one delta; False if it was merged before, or if one before it is missing.

        Raises
        ------
        ValueError
            It is damaged. It counts as merged: its agent shall go on.
        """
        agent = self._agents.setdefault(delta.agent, _Agent())
        if delta.incarnation < agent.incarnation:
            return False
        self._merged_now.add(delta.agent)
        is_successor = delta.incarnation > agent.incarnation
        missing = delta.sequence - agent.sequence - 1
        # A successor counts on, unless it knows nothing of its predecessor.
        is_first = delta.sequence == delta.since and (missing > 0 or is_successor)
        if (missing != 0 and not is_first) or self._is_early(delta):
            return False
        if is_successor:
            agent = self._agents[delta.agent] = _Agent(delta.incarnation)
        self.lost_deltas += max(missing, 0)
        agent.sequence = delta.sequence
        self._name_functions(agent, delta.names)
        self._merge(agent, delta)
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
        """Of agents that have sent something since the last time."""
        found = {name: self._acknowledgement(name) for name in self._merged_now}
        for name in found:
            self._untold.pop(name, None)
        self._merged_now.clear()
        return found

    def all_acknowledgements(self) -> dict[str, Acknowledgement]:
        """Of all agents, whether they have heard of it or not."""
        return {name: self._acknowledgement(name) for name in self._agents}

    def publish(self, now_s: float) -> Published | None:
        """What changed in the model, or None if there is nothing to tell yet.

        In lockstep that is what an epoch closed by all streams has changed. Otherwise rows of functions that
        have many calls stay behind; see ``chimbuko.statistics.convergence``.
        """
        closed = self._closed_epoch()
        if self._lockstep_streams:
            if closed <= self._published_epoch:
                return None
            self._functions.end_epoch()
            numbers = self._functions.changed()
        else:
            if now_s - self._epoch_at_s >= EPOCH_S:
                self._epoch_at_s = now_s
                self._functions.end_epoch()
            if now_s < self._publish_at_s:
                return None
            numbers = self._functions.due(now_s, HELD_S)
            if not len(numbers):
                return None
            pause_s = len(numbers) * len(self._agents) / ROWS_PER_S
            self._publish_at_s = now_s + min(pause_s, LONGEST_PAUSE_S)
        self._published_epoch = closed
        self._functions.published(numbers, now_s)
        self._version += 1
        names = self._functions.names[self._named :]
        self._named = len(self._functions.names)
        table = self._schema.pack(self._judged_by(numbers))
        rows = self._rows(numbers, table)
        update = self._update(numbers)
        if self._lockstep_streams:
            self._published.update(rows)
            update = msgspec.structs.replace(update, table=table)
            # Kept by epoch and not by frame, whose time is the clock's: runs of one trace shall be alike.
            self._unstored.models += self._models(self._functions.grown(numbers, MODEL_GROWTH, False))
        return Published(update, rows, names)

    def whole(self) -> Published:
        """The whole model for a broker that knows nothing of it, and all acknowledgements.

        In lockstep it is that of the last closed epoch, else as it is now.
        """
        self._version += 1
        self._named = len(self._functions.names)
        numbers = np.arange(self._named)
        self._merged_now.update(self._agents)
        if self._lockstep_streams:
            rows = list(self._published.items())
        else:
            rows = self._rows(numbers, self._schema.pack(self._judged_by(numbers)))
        return Published(self._update(numbers), rows, list(self._functions.names))

    def learned(self) -> tuple[list[tuple[str, str]], Float64Array]:
        """Names of program and function of which calls are known, and the rows of the model; with what only
        the base knows.
        """
        named = [name for name in self._functions.names if name.program in self.programs]
        rows = self._judged_by(np.array([name.number for name in named], np.int64))
        known = {
            (self.programs[name.program], name.name): row
            for name, row in zip(named, rows, strict=True)
            if row[self._calls_at]
        }
        known = self._base | known
        table = np.array(list(known.values())).reshape(len(known), self._schema.width)
        return list(known), table

    def frame(self, is_last: bool = False) -> Frame | None:
        """What changed since the last frame, or None if nothing did; at the end all there is."""
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
        )

    def statistics(self, is_last: bool = False) -> RunStatistics | None:
        """What changed since the last time, or None if nothing did; at the end all there is."""
        unstored, self._unstored = self._unstored, _Unstored()
        functions = np.array(sorted(unstored.functions), np.int64)
        health = sorted(unstored.health)
        paths = self._telemetry.paths.changes()
        models = unstored.models
        if is_last:
            functions, health = self._functions.called(), list(self._health)
            paths = self._telemetry.paths.everything()
        if is_last or not self._lockstep_streams:
            grown = self._models(self._functions.grown(functions, MODEL_GROWTH, is_last))
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
        )

    def snapshot(self) -> Frame:
        """All there is, as one frame; the next frame goes on from it."""
        return Frame(
            tick=self._tick,
            ranks=self._ranks.statistics(np.arange(len(self._ranks))),
            steps=[],
            functions=self._functions.statistics(self._functions.called()),
            health=list(self._health.values()),
            is_last=False,
            telemetry=self._telemetry.everything(),
        )

    def report(self, model: str) -> Report:
        """All there is, for people; ``model`` is the file with the model."""
        paths = self._telemetry.paths.everything()
        return make_report(self.snapshot(), paths, self._functions, self.programs, model, self.lost_deltas)

    def save(self) -> SavedState:
        """Everything; it is acknowledged as saved by ``is_saved`` only."""
        return SavedState(
            lockstep_streams=self._lockstep_streams,
            programs=self.programs,
            agents={
                name: SavedAgent(agent.incarnation, agent.sequence, agent.global_numbers.tobytes())
                for name, agent in self._agents.items()
            },
            functions=self._functions.save(),
            closed=self._closed,
            published_epoch=self._published_epoch,
            published=self._published,
            version=self._version,
            ranks=self._ranks.save(),
            health=list(self._health.values()),
            telemetry=self._telemetry.dump(),
            tick=self._tick,
            lost_deltas=self.lost_deltas,
        )

    def is_saved(self) -> bool:
        """What is merged outlives this process: agents may forget it."""
        now = {name: (agent.incarnation, agent.sequence) for name, agent in self._agents.items()}
        # An agent that goes on sending learns of it with what is merged next: 10,000 would get it twice.
        self._merged_now.update(
            name for name, place in self._saved.items() if self._untold.get(name) == place
        )
        self._untold = {name: place for name, place in now.items() if self._saved.get(name) != place}
        self._saved = now
        return not self._untold

    def restore(self, saved: SavedState) -> None:
        """Go on from what was saved; before anything else."""
        self.programs = dict(saved.programs)
        for name, agent in saved.agents.items():
            numbers = np.frombuffer(agent.numbers, np.int64)
            self._agents[name] = _Agent(agent.incarnation, agent.sequence, numbers.tolist(), numbers)
        self._functions = Functions.restored(self._schema, saved.functions)
        self._closed = dict(saved.closed)
        self._published_epoch = saved.published_epoch
        self._published = dict(saved.published)
        # Versions that were published after it was saved are not used again for others.
        self._version = saved.version + VERSIONS_PER_SAVE
        self._ranks = Ranks.restored(saved.ranks)
        self._health = {(health.program, health.rank): health for health in saved.health}
        # What was reported to the store since it was saved is not known here.
        self._unstored.health.update(self._health)
        self._unstored.functions.update(self._functions.called().tolist())
        self._telemetry.restore(saved.telemetry)
        self._tick = saved.tick + VERSIONS_PER_SAVE
        self.lost_deltas = saved.lost_deltas
        self.is_saved()

    def _acknowledgement(self, name: str) -> Acknowledgement:
        agent = self._agents[name]
        incarnation, sequence = self._saved.get(name, (agent.incarnation, 0))
        saved = sequence if incarnation == agent.incarnation else 0
        return Acknowledgement(agent.incarnation, agent.sequence, saved)

    def _update(self, numbers: Int64Array) -> ModelUpdate:
        return ModelUpdate(
            server=self._server,
            version=self._version,
            closed_epoch=self._published_epoch,
            functions=len(self._functions.names),
            numbers=numbers.astype(np.int32).tobytes(),
            agents=len(self._agents),
        )

    def _rows(self, numbers: Int64Array, table: PackedTable) -> list[tuple[int, PackedTable]]:
        return list(zip(numbers.tolist(), self._schema.split(table), strict=True))

    def _judged_by(self, numbers: Int64Array) -> Float64Array:
        """The rows by which agents judge: without what is forgotten."""
        return self._functions.base(numbers) if self._is_frozen else self._functions.judged_by(numbers)

    def _models(self, numbers: Int64Array) -> list[FunctionModel]:
        names = [self._functions.names[number] for number in numbers.tolist()]
        rows = np.hstack([self._judged_by(numbers), self._functions.counted(numbers)])
        return [
            FunctionModel(self._version, name.program, name.name, row.tobytes())
            for name, row in zip(names, rows, strict=True)
        ]

    def _name_of(self, number: int) -> str:
        return self._functions.names[number].name

    def _node_of(self, program: int, rank: int) -> str:
        health = self._health.get((program, rank))
        return "" if health is None else health.node

    def _closed_epoch(self) -> int:
        if len(self._closed) < self._lockstep_streams:
            return NO_EPOCH
        return min(self._closed.values(), default=NO_EPOCH)

    def _is_early(self, delta: Delta) -> bool:
        """Whether its agent is an epoch ahead of what is published: a server that has lost its memory must
        not tell of that epoch to agents that are not there yet. It is sent again.
        """
        if not self._lockstep_streams:
            return False
        before = min((self._closed.get(stream, NO_EPOCH) for stream in delta.closed_epochs), default=NO_EPOCH)
        return self._published_epoch < before < ALL_EPOCHS

    def _name_functions(self, agent: _Agent, names: list[FunctionName]) -> None:
        if names:
            agent.numbers += [self._functions.number(name.program, name.name) for name in names]
            agent.global_numbers = np.array(agent.numbers, np.int64)

    def _merge(self, agent: _Agent, delta: Delta) -> None:
        own = np.frombuffer(delta.rows, np.int32)
        if max(own.max(initial=-1), _highest_number(delta.telemetry)) >= len(agent.numbers):
            raise ValueError("functions that the agent has not named")
        # Most deltas hold nothing: what is known well is held back. Without these tests they take 15 µs more.
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
        self._telemetry.take(delta.agent, delta.telemetry, agent.global_numbers)


def _highest_number(telemetry: TelemetryDelta) -> int:
    """Highest of the agent's numbers of functions in there; -1 where there is none."""
    parts = ((telemetry.flagged, FLAGGED), (telemetry.flagged_steps, FLAGGED_STEPS), (telemetry.paces, PACE))
    contents = [*parts, *((paths.rows, PATH) for paths in telemetry.paths)]
    numbers = [np.frombuffer(content, dtype)["function"].max() for content, dtype in contents if content]
    return int(max(numbers, default=-1))
