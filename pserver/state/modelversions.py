"""Versions of the model as they are published: changed rows to agents, grown rows to the store."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array
from chimbuko.core.statistics.convergence import HELD_PERIODS
from chimbuko.core.statistics.schema import PackedTable, TableSchema
from chimbuko.pserver.state.functions import BLOCK, Functions
from chimbuko.runtime.protocol.messages import NO_EPOCH, FunctionModel, FunctionName, ModelUpdate

MODEL_GROWTH = 1.5
"""Factor by which a function's calls have grown when its model goes to the store again. All versions of a
function called a million times are then 34; at 1.1 they were 145, a third of all that a short run stores.
"""
HELD_S = float(HELD_PERIODS)
"""Minimum time in seconds between two live updates of a function of which enough is known."""
ROWS_PER_S = 100_000
"""Maximum rate of rows of other functions, 1 kB each, that agents fetch: a tenth of a broker's bandwidth.

With few agents that allows 20 updates a second; with 250 agents and 500 functions one in 1.2 s.
"""
LONGEST_PAUSE_S = 5.0
"""Longest pause between two versions of the model, in seconds."""
EPOCH_S = 1.0
"""Time in seconds after which old calls are forgotten in a live run; in lockstep that is done with each
epoch.
"""


def pause_s(rows: int, readers: int) -> float:
    """Return the time for which nothing more is published, as so many fetch these rows."""
    return min(rows * readers / ROWS_PER_S, LONGEST_PAUSE_S)


class Published(msgspec.Struct, frozen=True):
    """One published version of the model."""

    update: ModelUpdate
    rows: list[tuple[int, PackedTable]]
    """Numbers of the changed functions, each with its packed row."""
    names: list[FunctionName]
    """Functions that got a number since the last version."""


class ModelVersions:
    """Versions of the model of all functions.

    Parameters
    ----------
    functions
        Statistics that the model is made of; whoever merges into them goes on doing so.
    is_lockstep
        Whether versions are those of closed epochs.
    is_frozen
        Whether the model is that of an earlier run and does not change.
    server
        Id that distinguishes this server from one that takes over from it.
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
        """Last epoch that was published."""
        self.closed_rows: dict[int, PackedTable] = {}
        """Rows of the model as last published, in lockstep. The current rows may contain more already."""
        self._named = 0
        """Number of functions that were named in updates."""
        self._epoch_at_s = self._publish_at_s = 0.0
        self._epoch_models: list[FunctionModel] = []

    def restore(
        self, functions: Functions, version: int, closed_epoch: int, closed_rows: Mapping[int, PackedTable]
    ) -> None:
        """Restore the saved state."""
        self._functions, self.version, self.closed_epoch = functions, version, closed_epoch
        self.closed_rows = dict(closed_rows)

    def publish(self, now_s: float, closed: int, agents: int, readers: int) -> Published | None:
        """Return the changes of the model, or None if there is nothing to publish yet.

        In lockstep that is what an epoch closed by all streams has changed. Otherwise rows of functions that
        have many calls stay behind; see ``chimbuko.core.statistics.convergence``.

        Parameters
        ----------
        closed
            Epoch that all streams have closed.
        agents
            Number of agents.
        readers
            Number of those that fetch the model here: agents, or leaf servers.
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
            self._publish_at_s = now_s + pause_s(len(numbers), readers)
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
        """Return the whole model: in lockstep that of the last closed epoch, else the current one."""
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
        """Return program and name of each function of which calls are known, and the rows of the model,
        including functions that only the base knows.
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
        """Return the models of functions whose calls have grown since the store got them.

        At the end, models of all these functions are returned.
        """
        return self._models(self._functions.grown(numbers, MODEL_GROWTH, is_last))

    def take_epoch_models(self) -> list[FunctionModel]:
        """Return, for the store, models of the epochs closed since the last call; of a run without epochs
        none.
        """
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
        """Return the rows by which agents judge, without forgotten calls."""
        return self._functions.base(numbers) if self._is_frozen else self._functions.judged_by(numbers)

    def _models(self, numbers: Int64Array) -> list[FunctionModel]:
        found = []
        for begin in range(0, len(numbers), BLOCK):
            block = numbers[begin : begin + BLOCK]
            names = [self._functions.names[number] for number in block.tolist()]
            rows = np.hstack([self._judged_by(block), self._functions.counted(block)])
            found += [
                FunctionModel(self.version, name.program, name.name, row.tobytes())
                for name, row in zip(names, rows, strict=True)
            ]
        return found
