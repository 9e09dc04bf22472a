"""An agent's view of the statistics: what its streams learned, merged; and the global model. No I/O."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.statistics import Learned
from chimbuko.messages import NO_EPOCH, Delta, FunctionName, ModelUpdate
from chimbuko.moments import Float64Array
from chimbuko.records import StepCount, StreamHealth
from chimbuko.tables import TableSchema


class AgentStatistics:
    """Merges the streams of one agent into one delta at a time, and keeps the model it gets back.

    Functions have numbers of the agent's own, in order of first mention.
    """

    def __init__(self, agent: str, incarnation: int, schema: TableSchema) -> None:
        self._agent = agent
        self._incarnation = incarnation
        self._schema = schema
        self._numbers: dict[tuple[int, str], int] = {}
        self._unsent_names: list[FunctionName] = []
        self._gathered = schema.empty(64)
        self._touched: set[int] = set()
        self._steps: list[StepCount] = []
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._sequence = 0
        self._global_names: dict[int, tuple[int, str]] = {}
        self._model: dict[tuple[int, str], Float64Array] = {}
        self.version = 0
        self.closed_epoch = NO_EPOCH
        self.merged_sequence = 0
        """Last own delta that is in the model."""

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next delta."""
        return self._sequence + 1

    def gather(self, program: int, timers: dict[int, str], learned: Learned) -> None:
        """Add what one stream learned to the next delta."""
        rows = [self._number(program, timers[timer]) for timer in learned.timers.tolist()]
        self._gathered = self._schema.grown(self._gathered, len(self._numbers))
        self._schema.merge(self._gathered, rows, learned.table)
        self._touched.update(rows)

    def gather_counts(self, steps: list[StepCount], health: StreamHealth) -> None:
        """Add step counts and running totals of one stream to the next delta."""
        self._steps.extend(steps)
        self._health[health.program, health.rank] = health

    def next_delta(self, closed_epochs: dict[str, int]) -> Delta | None:
        """What was gathered since the last delta; None if nothing was and no epoch was closed."""
        if not (self._touched or self._steps or self._health or closed_epochs):
            return None
        self._sequence = self.next_sequence
        rows = sorted(self._touched)
        delta = Delta(
            agent=self._agent,
            incarnation=self._incarnation,
            sequence=self._sequence,
            closed_epochs=closed_epochs,
            names=self._unsent_names,
            rows=np.array(rows, np.int64).tobytes(),
            table=self._schema.pack(self._gathered[rows]),
            steps=self._steps,
            health=list(self._health.values()),
        )
        self._gathered[rows] = self._schema.empty(len(rows))
        self._unsent_names, self._steps = [], []
        self._touched.clear()
        self._health.clear()
        return delta

    def apply(self, update: ModelUpdate) -> None:
        """Take over the rows of a model update; an older one than the model held is ignored."""
        if update.version <= self.version:
            return
        for name in update.names:
            self._global_names[name.number] = (name.program, name.name)
        rows = np.frombuffer(update.rows, np.int64)
        table = self._schema.unpack(update.table)
        for number, row in zip(rows.tolist(), table, strict=True):
            # A copy, or each row would keep the whole update that brought it.
            self._model[self._global_names[number]] = row.copy()
        self.version = update.version
        self.closed_epoch = update.closed_epoch
        incarnation, sequence = update.merged.get(self._agent, (-1, 0))
        if incarnation == self._incarnation:
            self.merged_sequence = max(self.merged_sequence, sequence)

    def model_for(self, program: int, timers: dict[int, str]) -> Float64Array:
        """The model as one stream needs it, f8[timers, width], rows by the stream's timer ids."""
        table = self._schema.empty(max(timers, default=-1) + 1)
        for timer, name in timers.items():
            row = self._model.get((program, name))
            if row is not None:
                table[timer] = row
        return table

    def _number(self, program: int, name: str) -> int:
        key = program, name
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._unsent_names.append(FunctionName(self._numbers[key], program, name))
        return self._numbers[key]
