"""The model as it goes out, version by version: to agents what is due, to the store what has grown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array
from chimbuko.core.statistics.convergence import HELD_PERIODS
from chimbuko.core.statistics.schema import PackedTable, TableSchema
from chimbuko.pserver.state.functions import Functions
from chimbuko.runtime.protocol.messages import NO_EPOCH, FunctionModel, FunctionName, ModelUpdate

MODEL_GROWTH = 1.5
"""Where a function's calls have grown by so much its model goes to the store. All versions of a function
called a million times are 34 then; at 1.1 they were 145, a third of all that a short run stores."""
HELD_S = float(HELD_PERIODS)
"""Live, agents hear so seldom of functions of which enough is known."""
ROWS_PER_S = 100_000
"""Rows of other functions, 1 kB each, that agents may fetch: a tenth of what a broker can give. So much is
sent to few agents 20 times a second, and 500 functions to 250 agents each 1.2 s."""
LONGEST_PAUSE_S = 5.0
"""But no more seldom."""
EPOCH_S = 1.0
"""Live, old calls are forgotten so often; in lockstep with each epoch."""


@dataclass(frozen=True)
class Published:
    """A version of the model as it goes out."""

    update: ModelUpdate
    rows: list[tuple[int, PackedTable]]
    """Functions that have a new row, and the rows."""
    names: list[FunctionName]
    """Functions that have a number since the last version."""


class ModelVersions:
    """Versions of the model of all functions.

    Parameters
    ----------
    functions
        What was learned; whoever merges into it goes on doing so.
    is_lockstep
        Whether versions are those of closed epochs.
    is_frozen
        The model is what an earlier run has learned, and stays as it is.
    server
        Distinguishes this server from one that takes over from it.
    """

    def __init__(
        self, functions: Functions, schema: TableSchema, is_lockstep: bool, is_frozen: bool, server: int
    ) -> None:
        self._functions = functions
        self._schema = schema
        self._is_lockstep = is_lockstep
        self._is_frozen = is_frozen
        self._server = server
        self._calls_at = schema.slices["exclusive_us"].start
        self.version = 0
        self.closed_epoch = NO_EPOCH
        """The last one that was published."""
        self.closed_rows: dict[int, PackedTable] = {}
        """In lockstep: rows of the model as last published. Those of now may contain more already."""
        self._named = 0
        """How many functions were named in updates."""
        self._epoch_at_s = self._publish_at_s = 0.0
        self._epoch_models: list[FunctionModel] = []

    def restore(
        self, functions: Functions, version: int, closed_epoch: int, closed_rows: Mapping[int, PackedTable]
    ) -> None:
        """Go on from what was saved."""
        self._functions, self.version, self.closed_epoch = functions, version, closed_epoch
        self.closed_rows = dict(closed_rows)

    def publish(self, now_s: float, closed: int, agents: int) -> Published | None:
        """What changed in the model, or None if there is nothing to publish yet.

        In lockstep that is what an epoch closed by all streams has changed. Otherwise rows of functions that
        have many calls stay behind; see ``chimbuko.core.statistics.convergence``.

        Parameters
        ----------
        closed
            The epoch that all streams have closed.
        agents
            How many want to know.
        """
        if self._is_lockstep:
            if closed <= self.closed_epoch:
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
            pause_s = len(numbers) * agents / ROWS_PER_S
            self._publish_at_s = now_s + min(pause_s, LONGEST_PAUSE_S)
        self.closed_epoch = closed
        self._functions.published(numbers, now_s)
        self.version += 1
        names = self._functions.names[self._named :]
        self._named = len(self._functions.names)
        table = self._schema.pack(self._judged_by(numbers))
        rows = self._rows(numbers, table)
        update = self._update(numbers, agents)
        if self._is_lockstep:
            self.closed_rows.update(rows)
            update = msgspec.structs.replace(update, table=table)
            # Kept by epoch and not by frame, whose time is the clock's: runs of one trace shall be alike.
            self._epoch_models += self.grown(numbers, is_last=False)
        return Published(update, rows, names)

    def whole(self, agents: int) -> Published:
        """All of it: in lockstep that of the last closed epoch, else as it is now."""
        self.version += 1
        self._named = len(self._functions.names)
        numbers = np.arange(self._named)
        if self._is_lockstep:
            rows = list(self.closed_rows.items())
        else:
            rows = self._rows(numbers, self._schema.pack(self._judged_by(numbers)))
        return Published(self._update(numbers, agents), rows, list(self._functions.names))

    def learned(
        self, programs: Mapping[int, str], base: Mapping[tuple[str, str], Float64Array]
    ) -> tuple[list[tuple[str, str]], Float64Array]:
        """Names of program and function of which calls are known, and the rows of the model; with what only
        the base knows.
        """
        named = [name for name in self._functions.names if name.program in programs]
        rows = self._judged_by(np.array([name.number for name in named], np.int64))
        known = {
            (programs[name.program], name.name): row
            for name, row in zip(named, rows, strict=True)
            if row[self._calls_at]
        }
        known = dict(base) | known
        table = np.array(list(known.values())).reshape(len(known), self._schema.width)
        return list(known), table

    def grown(self, numbers: Int64Array, is_last: bool) -> list[FunctionModel]:
        """Of these functions those of which much more is known than the store has; at the end all."""
        return self._models(self._functions.grown(numbers, MODEL_GROWTH, is_last))

    def take_epoch_models(self) -> list[FunctionModel]:
        """For the store, of epochs that were closed since the last time; of a run without epochs none."""
        models, self._epoch_models = self._epoch_models, []
        return models

    def _update(self, numbers: Int64Array, agents: int) -> ModelUpdate:
        return ModelUpdate(
            server=self._server,
            version=self.version,
            closed_epoch=self.closed_epoch,
            functions=len(self._functions.names),
            numbers=numbers.astype(np.int32).tobytes(),
            agents=agents,
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
            FunctionModel(self.version, name.program, name.name, row.tobytes())
            for name, row in zip(names, rows, strict=True)
        ]
