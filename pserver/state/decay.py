"""Forgetting and following: the newer calls of each function, brought to the level of the newest.

An era lasts until a function has 1,000 calls again, and ends between two epochs, so that it is the same
whatever the order in which agents report. Where the runtimes of an era are longer or shorter than those
before as a whole, what was known before is scaled to them: slow drift is followed, and its extent known.
"""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array, UInt16Array, grown
from chimbuko.core.buckets import BUCKETS
from chimbuko.core.kernels.decay import ERA_CALLS, MOVED, end_eras
from chimbuko.core.kernels.merge import add_cells
from chimbuko.core.statistics.packed import PackedTable, pack_cells, unpack_cells


class SavedDecay(msgspec.Struct, frozen=True, array_like=True):
    """All that is remembered, for a server that takes over."""

    era: PackedTable
    newer: PackedTable
    older: PackedTable
    ln_drift: bytes
    """f8[functions]"""


class Decay:
    """Bucket counts of functions: of the era, of the newer memory, of the older memory."""

    def __init__(self) -> None:
        self._era = np.zeros((0, BUCKETS))
        self._newer = np.zeros((0, BUCKETS))
        self._older = np.zeros((0, BUCKETS))
        self._calls = np.zeros(0)
        self._ln_drift = np.zeros(0)

    @classmethod
    def restored(cls, saved: SavedDecay) -> Decay:
        """As it was when it was saved."""
        eras = cls()
        eras._era, eras._newer, eras._older = (
            unpack_cells(part, BUCKETS) for part in (saved.era, saved.newer, saved.older)
        )
        eras._calls = eras._era.sum(axis=1)
        eras._ln_drift = np.frombuffer(saved.ln_drift).copy()
        return eras

    def save(self) -> SavedDecay:
        """Everything."""
        era, newer, older = (pack_cells(part) for part in (self._era, self._newer, self._older))
        return SavedDecay(era, newer, older, self._ln_drift.tobytes())

    def add(self, rows: Int64Array, counts: UInt16Array, cells: UInt16Array, values: Float64Array) -> None:
        """Add calls of the functions ``rows``; how many in which buckets, as in a ``PackedTable``."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        add_cells(self._era, rows, 0, counts, cells, values)
        np.add.at(self._calls, np.repeat(rows, counts), values)

    def begin_with(self, row: int, counts: Float64Array) -> None:
        """Calls f8[BUCKETS] of a function that are known from before: its oldest."""
        self.reserve(row + 1)
        self._older[row] += counts

    def remembered(self, rows: Int64Array) -> Float64Array:
        """What the functions ``rows`` are judged by, f8[n, BUCKETS]."""
        return self._era[rows] + self._newer[rows] + self._older[rows]

    def end_epoch(self) -> tuple[Int64Array, Int64Array]:
        """End the eras that are full; returns the functions of which something changed, and those among
        them whose runtimes have moved.
        """
        rows = np.flatnonzero(self._calls >= ERA_CALLS)
        is_changed = np.zeros(len(rows), np.uint8)
        end_eras(rows, self._era, self._newer, self._older, self._ln_drift, is_changed)
        self._calls[rows] = 0.0
        return rows[is_changed != 0], rows[is_changed == MOVED]

    def drift(self, rows: Int64Array) -> Float64Array:
        """How much longer calls of functions take than at first, as factors f8[n]."""
        return np.exp(self._ln_drift[rows])

    def reserve(self, rows: int) -> None:
        """Have room for functions up to ``rows``."""
        for name in ("_era", "_newer", "_older", "_calls", "_ln_drift"):
            setattr(self, name, grown(getattr(self, name), rows))
