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
    """A named column and its merge rule; moments are seven numbers wide, the others one."""

    name: str
    rule: Rule

    @property
    def width(self) -> int:
        """Numbers per row."""
        return merge.MOMENTS_WIDTH if self.rule is Rule.MOMENTS else 1


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table; the table itself is a plain f8[rows, width] array."""

    columns: tuple[Column, ...]

    @cached_property
    def width(self) -> int:
        """Numbers per row."""
        return sum(column.width for column in self.columns)

    @cached_property
    def starts(self) -> Int64Array:
        """Where each column begins, i8[columns]."""
        widths = [column.width for column in self.columns]
        return np.concatenate(([0], np.cumsum(widths)[:-1])).astype(np.int64)

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

    def merge(self, into: Float64Array, rows: npt.ArrayLike, other: Float64Array) -> None:
        """Merge ``other[i]`` into ``into[rows[i]]``, in place."""
        merge.merge_rows(into, np.asarray(rows, np.int64), other, self.starts, self.rules)


PROFILE = TableSchema(
    (
        Column("exclusive_us", Rule.MOMENTS),
        Column("inclusive_us", Rule.MOMENTS),
        Column("anomalies", Rule.ADD),
        Column("severity_us", Rule.ADD),
    )
)
"""What is known of each function in every run: its runtimes, in µs, and its anomalies."""
