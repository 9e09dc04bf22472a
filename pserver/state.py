"""The parameter server's state: statistics of all agents merged, and what others want to know of them.

A pure core: deltas in, model updates and frames out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.messages import (
    NO_EPOCH,
    Delta,
    Frame,
    FunctionModel,
    FunctionName,
    FunctionStatistics,
    ModelUpdate,
    RankStatistics,
)
from chimbuko.model import Model
from chimbuko.moments import Float64Array, Moments
from chimbuko.pserver.eras import Eras
from chimbuko.records import StepCount, StreamHealth
from chimbuko.tables import PROFILE, Int64Array, TableSchema

RankKey = tuple[int, int]
"""Program and rank."""

MODEL_GROWTH = 1.5
"""A function's model is told again when its calls have grown by so much: so seldom that all versions of
a function called a million times are 34. At 1.1 they were 145, a third of all that a short run stores."""


@dataclass
class _Agent:
    """What the server knows of one agent."""

    incarnation: int = -1
    sequence: int = 0
    numbers: dict[int, int] = field(default_factory=dict)
    """The agent's function numbers to global ones."""


@dataclass
class _Rank:
    """Anomalies per step of one rank."""

    per_step: Moments = field(default_factory=Moments)
    severity_us: float = 0.0
    last_step: int = -1


@dataclass
class _Changes:
    """What changed since the last frame."""

    ranks: set[RankKey] = field(default_factory=set)
    functions: set[int] = field(default_factory=set)
    health: set[RankKey] = field(default_factory=set)
    steps: list[StepCount] = field(default_factory=list)


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
    """

    def __init__(
        self,
        lockstep_streams: int = 0,
        schema: TableSchema = PROFILE,
        base: Model | None = None,
        is_frozen: bool = False,
    ) -> None:
        self._schema = schema
        self._lockstep_streams = lockstep_streams
        self._is_frozen = is_frozen
        self._programs: dict[int, str] = {}
        self._base = {} if base is None else dict(zip(base.functions, base.table, strict=True))
        self._base_table = schema.empty(64)
        self._agents: dict[str, _Agent] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._names: list[FunctionName] = []
        self._table = schema.empty(64)
        self._closed: dict[str, int] = {}
        self._version = 0
        self._changed: set[int] = set()
        self._merged_now: set[str] = set()
        self._named_now: list[FunctionName] = []
        self._ranks: dict[RankKey, _Rank] = {}
        self._health: dict[RankKey, StreamHealth] = {}
        self._changes = _Changes()
        self._tick = 0
        self._eras = Eras()
        self._calls_at = schema.slices["exclusive_us"].start
        forgotten = [column.name for column in schema.columns if column.is_forgotten]
        self._forgotten = schema.slices[forgotten[0]] if forgotten else None
        self._forgot_epoch = NO_EPOCH
        self._told_calls: dict[int, float] = {}

    def name_programs(self, programs: Mapping[int, str]) -> None:
        """Learn the names of programs by number: functions of the base are known from then on."""
        for program, name in programs.items():
            if program in self._programs:
                continue
            self._programs[program] = name
            numbers = [
                self._begin_with(program, function, row)
                for (of, function), row in self._base.items()
                if of == name
            ]
            self._changed.update(numbers)

    def apply(self, delta: Delta) -> bool:
        """Merge one delta; False if it was merged before."""
        agent = self._agents.setdefault(delta.agent, _Agent())
        if delta.incarnation < agent.incarnation:
            return False
        if delta.incarnation > agent.incarnation:
            agent.incarnation, agent.sequence, agent.numbers = delta.incarnation, 0, {}
        if delta.sequence <= agent.sequence:
            # The acknowledgement was lost with a broker, perhaps: the next update tells the agent again.
            self._merged_now.add(delta.agent)
            return False
        agent.sequence = delta.sequence
        self._merged_now.add(delta.agent)
        for name in delta.names:
            agent.numbers[name.number] = self._global_number(name)
        self._merge_table(agent, delta)
        self._closed.update(delta.closed_epochs)
        for step in delta.steps:
            self._count_step(step)
        for health in delta.health:
            key = health.program, health.rank
            self._health[key] = health
            self._changes.health.add(key)
        return True

    def model_update(self) -> ModelUpdate | None:
        """What changed since the last update, or None if there is nothing to tell yet."""
        if not self._merged_now and not self._changed:
            return None
        self._version += 1
        self._end_epoch()
        update = self._model(sorted(self._changed), self._named_now, self._merged_now)
        self._changed.clear()
        self._merged_now.clear()
        self._named_now = []
        return update

    def model(self) -> ModelUpdate:
        """The whole model as of the last update."""
        return self._model(list(range(len(self._names))), self._names, set(self._agents))

    def learned(self) -> tuple[list[tuple[str, str]], Float64Array]:
        """Names of program and function, and the rows of the model; with what only the base knows."""
        named = [name for name in self._names if name.program in self._programs]
        rows = self._judged_by(np.array([name.number for name in named], np.int64))
        known = {
            (self._programs[name.program], name.name): row for name, row in zip(named, rows, strict=True)
        }
        known = self._base | known
        table = np.array(list(known.values())).reshape(len(known), self._schema.width)
        return list(known), table

    def frame(self, is_last: bool = False) -> Frame | None:
        """What changed since the last frame, or None if nothing did."""
        changes = self._changes
        if not (is_last or changes.steps or changes.health or changes.functions):
            return None
        self._changes = _Changes()
        self._tick += 1
        return Frame(
            tick=self._tick,
            ranks=[self._rank_statistics(key) for key in sorted(changes.ranks)],
            steps=changes.steps,
            functions=[self._function_statistics(number) for number in sorted(changes.functions)],
            health=[self._health[key] for key in sorted(changes.health)],
            models=self._new_models(changes.functions, is_last),
            is_last=is_last,
        )

    def _model(self, numbers: list[int], names: list[FunctionName], agents: set[str]) -> ModelUpdate:
        return ModelUpdate(
            version=self._version,
            closed_epoch=self._closed_epoch(),
            names=list(names),
            rows=np.array(numbers, np.int64).tobytes(),
            table=self._schema.pack(self._judged_by(np.array(numbers, np.int64))),
            merged={
                name: (self._agents[name].incarnation, self._agents[name].sequence) for name in sorted(agents)
            },
        )

    def _judged_by(self, numbers: Int64Array) -> Float64Array:
        """The rows by which agents judge: without what is forgotten."""
        if self._is_frozen:
            return self._base_table[numbers]
        table = self._table[numbers]
        self._schema.merge(table, np.arange(len(numbers)), self._base_table[numbers])
        if self._forgotten is not None:
            table[:, self._forgotten] = self._eras.remembered(numbers)
        return table

    def _begin_with(self, program: int, function: str, row: Float64Array) -> int:
        number = self._global_number(FunctionName(0, program, function))
        self._base_table[number] = row
        if self._forgotten is not None:
            self._eras.begin_with(number, row[self._forgotten])
        return number

    def _end_epoch(self) -> None:
        """Forget, once per epoch: in lockstep when all streams have closed it."""
        closed = self._closed_epoch()
        if self._forgotten is None or (self._lockstep_streams and closed <= self._forgot_epoch):
            return
        self._forgot_epoch = closed
        self._changed.update(self._eras.end_epoch())

    def _new_models(self, functions: set[int], is_last: bool) -> list[FunctionModel]:
        """Models of those functions whose calls have grown by half since the last time."""
        models = []
        for number in sorted(functions if not is_last else range(len(self._names))):
            own = self._table[number, self._calls_at]
            calls = self._base_table[number, self._calls_at] + (0.0 if self._is_frozen else own)
            if not own or (calls < MODEL_GROWTH * self._told_calls.get(number, 1) and not is_last):
                continue
            self._told_calls[number] = calls
            name = self._names[number]
            row = self._judged_by(np.array([number]))[0]
            models.append(FunctionModel(self._version, name.program, name.name, row.tobytes()))
        return models

    def _closed_epoch(self) -> int:
        if len(self._closed) < self._lockstep_streams:
            return NO_EPOCH
        return min(self._closed.values(), default=NO_EPOCH)

    def _global_number(self, name: FunctionName) -> int:
        key = name.program, name.name
        number = self._numbers.get(key)
        if number is None:
            number = len(self._names)
            self._numbers[key] = number
            named = FunctionName(number, name.program, name.name)
            self._names.append(named)
            self._named_now.append(named)
            self._table = self._schema.grown(self._table, number + 1)
            self._base_table = self._schema.grown(self._base_table, number + 1)
        return number

    def _merge_table(self, agent: _Agent, delta: Delta) -> None:
        own: npt.NDArray[np.int64] = np.frombuffer(delta.rows, np.int64)
        rows = [agent.numbers[number] for number in own.tolist()]
        table = self._schema.unpack(delta.table)
        self._schema.merge(self._table, rows, table)
        if self._forgotten is not None:
            self._eras.add(np.array(rows, np.int64), table[:, self._forgotten])
        self._changed.update(rows)
        self._changes.functions.update(rows)

    def _count_step(self, step: StepCount) -> None:
        key = step.program, step.rank
        rank = self._ranks.setdefault(key, _Rank())
        # A restarted agent may send steps again that it had spooled; steps of a rank only rise.
        if step.step <= rank.last_step:
            return
        count = float(step.anomalies)
        rank.per_step = rank.per_step.merge(Moments(1.0, count, 0.0, 0.0, 0.0, count, count))
        rank.severity_us += step.severity_us
        rank.last_step = step.step
        self._changes.ranks.add(key)
        self._changes.steps.append(step)

    def _rank_statistics(self, key: RankKey) -> RankStatistics:
        rank = self._ranks[key]
        moments = rank.per_step
        return RankStatistics(
            program=key[0],
            rank=key[1],
            steps=int(moments.n),
            total=round(moments.total),
            mean=moments.mean,
            stddev=moments.stddev,
            minimum=int(moments.minimum),
            maximum=int(moments.maximum),
            skewness=moments.skewness,
            kurtosis=moments.kurtosis,
            severity_us=rank.severity_us,
            last_step=rank.last_step,
        )

    def _function_statistics(self, number: int) -> FunctionStatistics:
        row = self._table[number]
        exclusive = Moments.from_row(row[self._schema.slices["exclusive_us"]])
        inclusive = Moments.from_row(row[self._schema.slices["inclusive_us"]])
        name = self._names[number]
        return FunctionStatistics(
            program=name.program,
            name=name.name,
            calls=int(exclusive.n),
            anomalies=int(row[self._schema.slices["anomalies"]][0]),
            severity_us=float(row[self._schema.slices["severity_us"]][0]),
            exclusive_mean_us=exclusive.mean,
            exclusive_stddev_us=exclusive.stddev,
            exclusive_minimum_us=exclusive.minimum,
            exclusive_maximum_us=exclusive.maximum,
            inclusive_mean_us=inclusive.mean,
            inclusive_maximum_us=inclusive.maximum,
            drift=self._eras.drift(number),
        )
