"""Statistics tables: one row per function, columns that each know how they merge.

A detector's whole state is such a table, so agents and server exchange and merge it without knowing the
detector. Tables are sent as ``PackedTable``, since of columns of many values most are 0. Loads no kernels.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array, Int64Array, UInt16Array, grown
from chimbuko.core.buckets import BUCKETS
from chimbuko.core.config import detector_entry
from chimbuko.core.errors import StoreError
from chimbuko.core.kernels import rules
from chimbuko.core.statistics.moments import EMPTY


class PackedTable(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a table as they are sent, with the wide columns sparse: most of their values are 0."""

    rows: int
    narrow: bytes
    """Columns of one value and moments, float64[rows, width]."""
    counts: bytes
    """Number of values that are not 0 in the wide columns of each row, uint16[rows]."""
    cells: bytes
    """Column of each such value within its row, uint16[n]."""
    values: bytes
    """The values, float32[n] where that is exact, float64[n] where not."""


def pack_cells(wide: Float64Array) -> PackedTable:
    """Pack float64[rows, n], of which most numbers are 0, at most 65,536 in a row."""
    # Of truth values in one row, as numpy looks for those three times as fast.
    flat = wide.ravel()
    places = np.flatnonzero(flat != 0)
    at, cells = np.divmod(places, max(1, wide.shape[1]))
    values = flat[places]
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    return PackedTable(
        len(wide),
        b"",
        np.bincount(at, minlength=len(wide)).astype(np.uint16).tobytes(),
        cells.astype(np.uint16).tobytes(),
        (short if (short == values).all() else values).tobytes(),
    )


def unpack_cells(packed: PackedTable, width: int) -> Float64Array:
    """Return the unpacked rows, float64[rows, width].

    Raises
    ------
    ValueError, IndexError
        The parts do not fit together.
    """
    counts, cells, values = cells_of(packed)
    wide = np.zeros((packed.rows, width))
    wide[np.repeat(np.arange(packed.rows), counts), cells] = values
    return wide


def cells_of(packed: PackedTable) -> tuple[UInt16Array, UInt16Array, Float64Array]:
    """Return how many numbers each row has, uint16[rows]; their columns, uint16[n]; and the numbers,
    float64[n].
    """
    cells = np.frombuffer(packed.cells, np.uint16).copy()
    is_short = len(packed.values) == 4 * len(cells)
    values = np.frombuffer(packed.values, np.float32 if is_short else np.float64)
    return np.frombuffer(packed.counts, np.uint16).copy(), cells, values.astype(np.float64)


class Rule(IntEnum):
    """Rule by which a column merges."""

    MOMENTS = rules.RULE_MOMENTS
    ADD = rules.RULE_ADD
    MIN = rules.RULE_MIN
    MAX = rules.RULE_MAX


_IDENTITY = {Rule.ADD: 0.0, Rule.MIN: np.inf, Rule.MAX: -np.inf}


class Column(msgspec.Struct, frozen=True):
    """A named column, its merge rule, and its number of values; moments are seven numbers each."""

    name: str
    rule: Rule
    values: int = 1
    is_forgotten: bool = False
    """Whether the server judges by the newer part only, so that slow drift is followed."""

    @property
    def width(self) -> int:
        """Number of values per row."""
        return rules.MOMENTS_WIDTH if self.rule is Rule.MOMENTS else self.values


class TableSchema(msgspec.Struct, frozen=True, dict=True):
    """Columns of a table; the table itself is a plain float64[rows, width] array."""

    columns: tuple[Column, ...]
    """All columns, those of many values last; these add up."""

    def __post_init__(self) -> None:
        """Raise ValueError where a column of many values stands before another one, or does not add up."""
        is_wide = [column.values > 1 for column in self.columns]
        if is_wide != sorted(is_wide):
            raise ValueError("columns of many values stand behind all others")
        if any(column.rule is not Rule.ADD for column in self.columns if column.values > 1):
            raise ValueError("columns of many values add up")

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle a schema of this module by its name: a stream's process saves one with each of its
        commits.
        """
        name = next((name for name, known in globals().items() if known is self), None)
        return name or (TableSchema, (self.columns,))

    @cached_property
    def width(self) -> int:
        """Number of values per row."""
        return sum(column.width for column in self.columns)

    @cached_property
    def widths(self) -> Int64Array:
        """Number of values per row of each column, int64[columns]."""
        return np.array([column.width for column in self.columns], np.int64)

    @cached_property
    def starts(self) -> Int64Array:
        """Begin of each column, int64[columns]."""
        return np.concatenate(([0], np.cumsum(self.widths)[:-1])).astype(np.int64)

    @cached_property
    def rules(self) -> Int64Array:
        """Merge rule of each column, int64[columns]."""
        return np.array([column.rule for column in self.columns], np.int64)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Place of each column in a row, by name."""
        return {
            column.name: slice(int(start), int(start) + column.width)
            for start, column in zip(self.starts, self.columns, strict=True)
        }

    def empty(self, rows: int) -> Float64Array:
        """Return a table of ``rows`` rows that changes nothing when merged."""
        table = np.empty((rows, self.width))
        table[:] = self.identity
        return table

    @cached_property
    def identity(self) -> Float64Array:
        """Row that changes nothing when it is merged, float64[width]."""
        row = np.empty(self.width)
        for start, column in zip(self.starts, self.columns, strict=True):
            row[start : start + column.width] = (
                EMPTY if column.rule is Rule.MOMENTS else _IDENTITY[column.rule]
            )
        return row

    def grown(self, table: Float64Array, rows: int) -> Float64Array:
        """Return ``table`` itself, or a larger copy with at least ``rows`` rows."""
        return grown(table, rows, self.identity)

    def pack(self, table: Float64Array) -> PackedTable:
        """Pack a table for sending."""
        narrow = np.ascontiguousarray(table[:, : self.narrow]).tobytes()
        return msgspec.structs.replace(pack_cells(table[:, self.narrow :]), narrow=narrow)

    def split(self, whole: PackedTable) -> list[PackedTable]:
        """Split a packed table into its rows: 20 times as fast as to pack one after the other."""
        counts = np.frombuffer(whole.counts, np.uint16)
        ends = np.cumsum(counts, dtype=np.int64).tolist()
        size = len(whole.values) // ends[-1] if len(counts) and ends[-1] else 0
        narrow = 8 * self.narrow
        return [
            PackedTable(
                1,
                whole.narrow[narrow * row : narrow * (row + 1)],
                whole.counts[2 * row : 2 * (row + 1)],
                whole.cells[2 * begin : 2 * end],
                whole.values[size * begin : size * end],
            )
            for row, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
        ]

    def unpack(self, packed: PackedTable) -> Float64Array:
        """Return the unpacked rows, float64[rows, width].

        Raises
        ------
        ValueError, IndexError
            The parts do not fit together.
        """
        table = np.zeros((packed.rows, self.width))
        table[:, : self.narrow] = np.frombuffer(packed.narrow).reshape(packed.rows, self.narrow)
        table[:, self.narrow :] = unpack_cells(packed, self.width - self.narrow)
        return table

    def merge_packed(self, into: Float64Array, rows: Int64Array, packed: PackedTable) -> None:
        """Merge a packed table into ``into[rows[i]]``, in place; columns of many values add up.

        Raises
        ------
        ValueError
            The parts do not fit together; nothing was merged.
        """
        from chimbuko.core.kernels import merge

        # Copies: of arrays that cannot be written to, kernels would be compiled once more.
        narrow = np.frombuffer(packed.narrow).reshape(len(rows), self.narrow).copy()
        counts, cells, values = cells_of(packed)
        is_whole = len(counts) == len(rows) and counts.sum() == len(cells) == len(values)
        if not is_whole or cells.max(initial=0) >= max(1, self.width - self.narrow):
            raise ValueError("a table whose parts do not fit together")
        columns = self._narrow_columns
        merge.merge_rows(
            into, rows, narrow, self.starts[:columns], self.widths[:columns], self.rules[:columns]
        )
        merge.add_cells(into, rows, self.narrow, counts, cells, values)

    def cells_of(self, packed: PackedTable, column: str) -> tuple[UInt16Array, UInt16Array, Float64Array]:
        """Return how many numbers of a column of many values each row has, uint16[rows]; their places in the
        column, uint16[n]; and the numbers, float64[n].
        """
        counts, cells, values = cells_of(packed)
        place = self.slices[column]
        if (place.start, place.stop) == (self.narrow, self.width):
            return counts, cells, values
        begin, end = place.start - self.narrow, place.stop - self.narrow
        is_inside = (cells >= begin) & (cells < end)
        rows = np.repeat(np.arange(packed.rows), counts)[is_inside]
        inside = np.bincount(rows, minlength=packed.rows).astype(np.uint16)
        return inside, cells[is_inside] - np.uint16(begin), values[is_inside]

    @cached_property
    def narrow(self) -> int:
        """Number of values per row in the columns before the wide ones."""
        return sum(column.width for column in self.columns if column.values == 1)

    @cached_property
    def _narrow_columns(self) -> int:
        return sum(column.values == 1 for column in self.columns)

    def merge(self, into: Float64Array, rows: npt.ArrayLike, other: Float64Array) -> None:
        """Merge ``other[i]`` into ``into[rows[i]]``, in place."""
        # Imported here, as in merge_packed(), because readers of columns need no compiled code.
        from chimbuko.core.kernels import merge

        merge.merge_rows(into, np.asarray(rows, np.int64), other, self.starts, self.widths, self.rules)


PROFILE = TableSchema(
    (
        Column("exclusive_us", Rule.MOMENTS),
        Column("inclusive_us", Rule.MOMENTS),
        Column("anomalies", Rule.ADD),
        Column("severity_us", Rule.ADD),
        Column("highest_score", Rule.MAX),
    )
)
"""Columns known of each function in every run: its runtimes, in µs, and its anomalies."""

FLAGS = ("anomalies", "severity_us", "highest_score")
"""Columns that count flagged calls; all other columns learn from every call."""

PLACED = (Column("much_longer", Rule.ADD), Column("placed", Rule.ADD))
"""Columns that say of the calls of a function that take much longer than most, where there were enough of
them in a step to tell, how many there were, and how many of these stood where such calls always stand.
"""

BUCKETED_PROFILE = TableSchema(
    (*PROFILE.columns, *PLACED, Column("buckets", Rule.ADD, values=BUCKETS, is_forgotten=True))
)
"""``PROFILE`` and ``PLACED``, and the number of calls whose judged runtime is in each bucket of
``chimbuko.core.buckets``.
"""

STORED_PROFILE = TableSchema((*BUCKETED_PROFILE.columns, Column("counted", Rule.ADD, values=BUCKETS)))
"""``BUCKETED_PROFILE`` as it is stored: with the number of calls of the run in each bucket, of which none is
forgotten, or scaled to newer ones.
"""


def schema_of(detector: str) -> TableSchema:
    """Return the table that a detector learns."""
    return BUCKETED_PROFILE if _learns_buckets(detector) else PROFILE


def stored_schema_of(detector: str) -> TableSchema:
    """Return the table that a detector learns, as the store has it.

    Stores of earlier versions lack what was counted, which stands last, and ``PLACED``.
    """
    return STORED_PROFILE if _learns_buckets(detector) else PROFILE


def stored_columns(detector: str, row: bytes) -> dict[str, Float64Array]:
    """Return what the store has of a function's model, float64 by column; rows of earlier versions lack what
    was counted, and know of no calls that are ``PLACED``.

    Raises
    ------
    StoreError
        The row has other columns than those of this version.
    """
    values = np.frombuffer(row)
    for schema in (stored_schema_of(detector), schema_of(detector)):
        if len(values) == schema.width - len(PLACED) and schema is not PROFILE:
            values = np.insert(values, [PROFILE.width] * len(PLACED), 0.0)
        if len(values) == schema.width:
            return {name: values[place] for name, place in schema.slices.items()}
    expected = stored_schema_of(detector).width
    raise StoreError(
        f"a model of {len(values)} values, where this version's have {expected}: read it with the version of "
        "chimbuko that made it"
    )


def _learns_buckets(detector: str) -> bool:
    # A store may name a detector that this version does not know.
    entry = detector_entry(detector)
    return entry is None or entry.learns_buckets
