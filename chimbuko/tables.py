"""Statistics tables: one row per function, columns that each know how they merge.

A detector's whole state is such a table, so agents and server exchange and merge it
without knowing the detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from chimbuko.kernels import merge
from chimbuko.kernels.buckets import BUCKETS
from chimbuko.messages import PackedTable
from chimbuko.moments import EMPTY, Float64Array

Int64Array = npt.NDArray[np.int64]


class Rule(IntEnum):
    """How a column merges."""

    MOMENTS = merge.RULE_MOMENTS
    ADD = merge.RULE_ADD
    MIN = merge.RULE_MIN
    MAX = merge.RULE_MAX


_IDENTITY = {Rule.ADD: 0.0, Rule.MIN: np.inf, Rule.MAX: -np.inf}


@dataclass(frozen=True)
class Column:
    """A named column, its merge rule, and how many values it holds; moments are seven numbers each."""

    name: str
    rule: Rule
    values: int = 1
    is_forgotten: bool = False
    """Whether the server judges by its newer part only, so that slow drift is followed."""

    @property
    def width(self) -> int:
        """Numbers per row."""
        return merge.MOMENTS_WIDTH if self.rule is Rule.MOMENTS else self.values


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table; the table itself is a plain f8[rows, width] array."""

    columns: tuple[Column, ...]

    @cached_property
    def width(self) -> int:
        """Numbers per row."""
        return sum(column.width for column in self.columns)

    @cached_property
    def widths(self) -> Int64Array:
        """Numbers per row of each column, i8[columns]."""
        return np.array([column.width for column in self.columns], np.int64)

    @cached_property
    def starts(self) -> Int64Array:
        """Where each column begins, i8[columns]."""
        return np.concatenate(([0], np.cumsum(self.widths)[:-1])).astype(np.int64)

    @cached_property
    def rules(self) -> Int64Array:
        """Merge rule of each column, i8[columns]."""
        return np.array([column.rule for column in self.columns], np.int64)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each column stands in a row, by name."""
        return {
            column.name: slice(int(start), int(start) + column.width)
            for start, column in zip(self.starts, self.columns, strict=True)
        }

    def empty(self, rows: int) -> Float64Array:
        """A table of ``rows`` rows that changes nothing when merged."""
        table = np.empty((rows, self.width))
        for start, column in zip(self.starts, self.columns, strict=True):
            table[:, start : start + column.width] = (
                EMPTY if column.rule is Rule.MOMENTS else _IDENTITY[column.rule]
            )
        return table

    def grown(self, table: Float64Array, rows: int) -> Float64Array:
        """``table`` itself, or a larger copy with at least ``rows`` rows."""
        if len(table) >= rows:
            return table
        larger = self.empty(max(rows, 2 * len(table)))
        larger[: len(table)] = table
        return larger

    def pack(self, table: Float64Array) -> PackedTable:
        """For sending: of columns of many values most are 0."""
        wide = table[:, self._narrow :]
        cells = np.flatnonzero(wide)
        return PackedTable(
            len(table),
            np.ascontiguousarray(table[:, : self._narrow]).tobytes(),
            cells.astype(np.uint32).tobytes(),
            wide.reshape(-1)[cells].tobytes(),
        )

    def unpack(self, packed: PackedTable) -> Float64Array:
        """What was sent, f8[rows, width]."""
        table = np.zeros((packed.rows, self.width))
        narrow = np.frombuffer(packed.narrow)
        table[:, : self._narrow] = narrow.reshape(packed.rows, self._narrow)
        wide = np.zeros(packed.rows * (self.width - self._narrow))
        wide[np.frombuffer(packed.cells, np.uint32)] = np.frombuffer(packed.values)
        table[:, self._narrow :] = wide.reshape(packed.rows, self.width - self._narrow)
        return table

    @cached_property
    def _narrow(self) -> int:
        """Numbers per row of the columns before those of many values, which add up and stand last."""
        return sum(column.width for column in self.columns if column.values == 1)

    def merge(self, into: Float64Array, rows: npt.ArrayLike, other: Float64Array) -> None:
        """Merge ``other[i]`` into ``into[rows[i]]``, in place."""
        merge.merge_rows(into, np.asarray(rows, np.int64), other, self.starts, self.widths, self.rules)


PROFILE = TableSchema(
    (
        Column("exclusive_us", Rule.MOMENTS),
        Column("inclusive_us", Rule.MOMENTS),
        Column("anomalies", Rule.ADD),
        Column("severity_us", Rule.ADD),
    )
)
"""What is known of each function in every run: its runtimes, in µs, and its anomalies."""

BUCKETED_PROFILE = TableSchema(
    (*PROFILE.columns, Column("buckets", Rule.ADD, values=BUCKETS, is_forgotten=True))
)
"""... and how many calls had the judged runtime in each bucket of ``chimbuko.kernels.buckets``."""

_SCHEMAS = {"sstd": PROFILE}


def schema_of(detector: str) -> TableSchema:
    """The table that a detector learns."""
    return _SCHEMAS.get(detector, BUCKETED_PROFILE)
