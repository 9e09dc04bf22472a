"""A ring of rows: the newest so many, each of which leaves it once at most."""

from __future__ import annotations

import numpy as np

from chimbuko.monitor.samples.intervals import ends_us
from chimbuko.monitor.samples.nodebatch import Rows


class SliceRing:
    """The newest rows of one kind, up to ``capacity``."""

    def __init__(self, dtype: np.dtype[np.void], capacity: int) -> None:
        self._rows = np.zeros(capacity, dtype)
        self._is_taken = np.ones(capacity, bool)
        self._written = 0

    def put(self, rows: Rows) -> None:
        """Further rows, in place of the oldest."""
        rows = rows[-len(self._rows) :]
        places = (self._written + np.arange(len(rows))) % len(self._rows)
        self._rows[places] = rows
        self._is_taken[places] = False
        self._written += len(rows)

    def take(self, begin_us: int, end_us: int) -> Rows:
        """Rows of an interval that were not taken before."""
        rows = self._rows
        wanted = ~self._is_taken & (rows["begin_us"] < end_us) & (ends_us(rows) > begin_us)
        self._is_taken |= wanted
        return rows[wanted]
