"""Rows of a statistics table as they are sent: of columns of many values most are 0. Loads no kernels."""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, UInt16Array


class PackedTable(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a table as they are sent: of columns of many values most are 0."""

    rows: int
    narrow: bytes
    """f8[rows, ...]: columns of one value and moments."""
    counts: bytes
    """u2[rows]: how many numbers of the other columns are not 0, by row."""
    cells: bytes
    """u2[n]: which, in a row."""
    values: bytes
    """f4[n] where that is exact, f8[n] where not."""


def pack_cells(wide: Float64Array) -> PackedTable:
    """Rows f8[rows, n] of which most numbers are 0, at most 65,536 in a row."""
    at, cells = np.nonzero(wide)
    values = wide[at, cells]
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
    """f8[rows, width].

    Raises
    ------
    ValueError, IndexError
        Its parts do not fit together.
    """
    counts, cells, values = cells_of(packed)
    wide = np.zeros((packed.rows, width))
    wide[np.repeat(np.arange(packed.rows), counts), cells] = values
    return wide


def cells_of(packed: PackedTable) -> tuple[UInt16Array, UInt16Array, Float64Array]:
    """How many numbers each row has, u2[rows]; which, u2[n]; and the numbers, f8[n]."""
    cells = np.frombuffer(packed.cells, np.uint16).copy()
    is_short = len(packed.values) == 4 * len(cells)
    values = np.frombuffer(packed.values, np.float32 if is_short else np.float64)
    return np.frombuffer(packed.counts, np.uint16).copy(), cells, values.astype(np.float64)
