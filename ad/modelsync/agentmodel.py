"""The global model as an agent has it: rows of the functions that its streams may call. No I/O.

Each part of the parameter server numbers functions for itself, and publishes the rows of those that it
merges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array, longer
from chimbuko.core.statistics.schema import PackedTable, TableSchema
from chimbuko.runtime.protocol.messages import NO_EPOCH, FunctionName, ModelUpdate
from chimbuko.runtime.protocol.partition import part_of_function


class _PublishedRows(msgspec.Struct):
    """Model rows that one part of the server has published."""

    server: int = 0
    version: int = 0
    closed_epoch: int = NO_EPOCH
    functions: list[tuple[int, str]] = msgspec.field(default_factory=list)
    """Functions in the order of the part's numbers."""
    numbers: dict[tuple[int, str], int] = msgspec.field(default_factory=dict)
    """Number that the part has given to each function."""
    own: dict[tuple[int, str], int] = msgspec.field(default_factory=dict)
    """Agent's number of each of its functions that the part merges."""


class AgentModel:
    """Global model by the agent's own function numbers, in order of first mention.

    One thread owns it; ``rows_for`` and ``version`` may be read from another one, which sees each row as it
    was or as it is.
    """

    def __init__(self, schema: TableSchema, parts: int = 1) -> None:
        self._schema = schema
        self._parts = [_PublishedRows() for _ in range(parts)]
        self._numbers: dict[tuple[int, str], int] = {}
        self.names: list[FunctionName] = []
        """Functions in the order of the agent's numbers."""
        self.part_of = np.zeros(64, np.int32)
        """Part that merges each function, int32[functions]."""
        self._table = schema.empty(64)
        self._has_row = np.zeros(64, np.bool_)
        """Whether each function's row was fetched since the agent knows of the function."""
        self.edition = 0
        """Number that changes with each update of any part."""

    @property
    def version(self) -> int:
        """Newest version of all parts."""
        return max(part.version for part in self._parts)

    @property
    def closed_epoch(self) -> int:
        """Last epoch of which all parts have published the model."""
        return min(part.closed_epoch for part in self._parts)

    def number(self, program: int, name: str) -> int:
        """Return the agent's number of a function; a new one gets the next number."""
        key = program, name
        number = self._numbers.get(key)
        if number is None:
            number = len(self._numbers)
            # The row is written first: readers of the model in another thread go by the numbers.
            self._reserve(number + 1)
            part = part_of_function(program, name, len(self._parts))
            self.part_of[number] = part
            self._parts[part].own[key] = self._numbers[key] = number
            self.names.append(FunctionName(number, program, name))
        return number

    def rows(self, numbers: Int64Array) -> Float64Array:
        """Return what is known of functions by the agent's numbers, float64[n, width]."""
        rows: Float64Array = self._table[numbers]
        return rows

    def known_functions(self, part: int) -> int:
        """Return how many functions' names were learned from a part."""
        return len(self._parts[part].functions)

    def is_of_another_server(self, part: int, update: ModelUpdate) -> bool:
        """Return whether an update comes from another server, so that all names have to be learned anew."""
        return update.server != self._parts[part].server

    def learn_functions(self, part: int, server: int, names: Sequence[FunctionName]) -> None:
        """Learn names from a part, which follow the known ones."""
        known = self._parts[part]
        if server != known.server:
            known.server = server
            known.functions, known.numbers = [], {}
            self._has_row[list(known.own.values())] = False
        for name in names:
            known.numbers[name.program, name.name] = len(known.functions)
            known.functions.append((name.program, name.name))

    def wanted(self, part: int, updates: Sequence[ModelUpdate]) -> list[int]:
        """Return the part's numbers of the functions whose rows are to be fetched: those that are used here
        and have changed, or are new here.
        """
        known = self._parts[part]
        changed = {
            number
            for update in updates
            if update.table is None
            for number in np.frombuffer(update.numbers, np.int32).tolist()
        }
        has_missed = bool(updates) and updates[0].version != known.version + 1
        if not (changed or has_missed or not self._has_row[: len(self._numbers)].all()):
            return []
        return [
            number
            for key, own in known.own.items()
            if (number := known.numbers.get(key)) is not None
            and (has_missed or number in changed or not self._has_row[own])
        ]

    def apply(
        self, part: int, updates: Sequence[ModelUpdate], rows: Mapping[int, PackedTable | None]
    ) -> None:
        """Apply updates, with the rows that were wanted; None for a row that does not exist.

        Rows that were fetched are those of the newest version, so the rows in the updates themselves count
        less.
        """
        known = self._parts[part]
        for update in updates:
            if update.table is not None and update.server == known.server:
                self._take_table(known, update, update.table)
        for number, row in rows.items():
            own = known.own[known.functions[number]]
            self._has_row[own] = True
            if row is not None:
                self._table[own] = self._schema.unpack(row)[0]
        if updates:
            self.edition += 1
            known.version = updates[-1].version
            # A server that took over may be behind what was reported before.
            known.closed_epoch = max(known.closed_epoch, updates[-1].closed_epoch)

    def rows_for(self, program: int, timers: Mapping[int, str]) -> Float64Array:
        """Return the model for one stream, float64[timers, width], rows by the stream's timer ids."""
        table = self._schema.empty(max(timers, default=-1) + 1)
        for timer, name in timers.items():
            own = self._numbers.get((program, name))
            if own is not None:
                table[timer] = self._table[own]
        return table

    def parts_for(self, program: int, timers: Mapping[int, str]) -> Int64Array:
        """Return which part merges the function of each row of ``rows_for``, int64[timers]."""
        parts = np.zeros(max(timers, default=-1) + 1, np.int64)
        for timer, name in timers.items():
            parts[timer] = part_of_function(program, name, len(self._parts))
        return parts

    def _take_table(self, known: _PublishedRows, update: ModelUpdate, table: PackedTable) -> None:
        """Take the rows that an update contains itself, of functions that are used here."""
        keys = [known.functions[number] for number in np.frombuffer(update.numbers, np.int32).tolist()]
        own = np.array([known.own.get(key, -1) for key in keys], np.int64)
        is_used = own >= 0
        rows = self._schema.unpack(table)
        # All are used where one agent is all there is, and a copy of 100,000 rows takes 250 MB.
        self._table[own[is_used]] = rows if is_used.all() else rows[is_used]
        self._has_row[own[is_used]] = True

    def _reserve(self, count: int) -> None:
        if count > len(self._table):
            self._table = self._schema.grown(self._table, count)
            self._has_row = longer(self._has_row, len(self._table))
            self.part_of = longer(self.part_of, len(self._table))
