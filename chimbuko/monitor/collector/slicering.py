"""The newest rows of one kind, each of which leaves once at most."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.monitor.samples.intervals import ends_us
from chimbuko.monitor.samples.nodebatch import Rows


@dataclass(slots=True)
class _Slice:
    """Rows that came together."""

    rows: Rows
    last_us: int
    is_taken: npt.NDArray[np.bool_] | None = None
    """None where none is."""


class SliceRing:
    """Rows in slices that end later and later: the newest slices, up to ``capacity`` rows."""

    def __init__(self, dtype: np.dtype[np.void], capacity: int) -> None:
        self._none = np.zeros(0, dtype)
        self._capacity = capacity
        self._slices: deque[_Slice] = deque()
        self._count = 0

    def put(self, rows: Rows) -> None:
        """Further rows, in place of the oldest."""
        rows = rows[-self._capacity :]
        if not len(rows):
            return
        self._slices.append(_Slice(rows, int(ends_us(rows).max())))
        self._count += len(rows)
        while self._count > self._capacity:
            self._count -= len(self._slices.popleft().rows)

    def take(self, begin_us: int, end_us: int) -> Rows:
        """Rows of an interval that were not taken before."""
        found = [self._none]
        # The newest first: what is asked for was not long ago.
        for one in reversed(self._slices):
            if one.last_us <= begin_us:
                break
            wanted = (one.rows["begin_us"] < end_us) & (ends_us(one.rows) > begin_us)
            if one.is_taken is None:
                one.is_taken = wanted
            else:
                wanted &= ~one.is_taken
                one.is_taken |= wanted
            found.append(one.rows[wanted])
        return np.concatenate(found)
