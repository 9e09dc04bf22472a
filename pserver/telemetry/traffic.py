"""Messages and bytes from rank to rank: a sparse matrix per program. Pure."""

from __future__ import annotations

import numpy as np

from chimbuko.arrays import Rows, grown
from chimbuko.protocol.telemetry import OTHERS, TRAFFIC
from chimbuko.pserver.kernels.rowindex import NONE
from chimbuko.pserver.telemetry.rowindex import RowIndex

MOST_PAIRS = 1 << 20
"""Of ranks with a row of their own, in all: 100 partners for each of 10,000 ranks, in 60 MB."""
GROWTH = 1.1
"""Pairs are reported again when they have grown by a tenth: 10,000 ranks with eight partners each would
otherwise be 2 MB in each frame."""


class Traffic:
    """Adds up what ranks send.

    Parameters
    ----------
    most_pairs
        What is sent between further ranks is added up by sender alone.
    """

    def __init__(self, most_pairs: int = MOST_PAIRS) -> None:
        self._pairs = _Totals(most_pairs)
        self._others = _Totals()
        self._waiting: list[bytes] = []

    def take(self, traffic: bytes) -> None:
        """``TRAFFIC`` rows."""
        self._waiting.append(traffic)

    def changes(self) -> Rows:
        """Totals that have grown by a tenth since they were reported."""
        self._settle()
        return np.concatenate([self._pairs.grown(), self._others.grown()])

    def everything(self) -> Rows:
        """All totals."""
        self._settle()
        return np.concatenate([self._pairs.rows, self._others.rows])

    def restore(self, everything: Rows) -> None:
        """Go on from all totals; for a new one."""
        is_others = everything["destination"] == OTHERS
        self._pairs.add(everything[~is_others])
        self._others.add(everything[is_others])
        self.changes()

    def _settle(self) -> None:
        """Add what has come: all at once, since each look at an array costs more than adding a row."""
        if self._waiting:
            rest = self._pairs.add(np.frombuffer(b"".join(self._waiting), TRAFFIC))
            self._waiting.clear()
            rest["destination"] = OTHERS
            self._others.add(rest)


class _Totals:
    """``TRAFFIC`` rows, one for each sender and destination."""

    def __init__(self, most: int = 1 << 30) -> None:
        self._index = RowIndex(most)
        self._rows = np.zeros(0, TRAFFIC)
        self._reported = np.zeros(0, np.int64)
        """i8[rows]: messages when the row was reported."""

    @property
    def rows(self) -> Rows:
        return self._rows[: len(self._index)]

    def add(self, traffic: Rows) -> Rows:
        """Returns a copy of the rows for which there is no room."""
        at = self._index.rows(traffic["program"], traffic["rank"], traffic["destination"])
        self._rows = grown(self._rows, len(self._index))
        has_room = at != NONE
        added, at = traffic[has_room], at[has_room]
        for name in ("program", "rank", "destination"):
            self._rows[name][at] = added[name]
        for name in ("messages", "size_bytes"):
            np.add.at(self._rows[name], at, added[name])
        rest: Rows = traffic[~has_room]
        return rest

    def grown(self) -> Rows:
        """Those that have grown by a tenth since they were here."""
        self._reported = grown(self._reported, len(self._rows))
        rows = self.rows
        at = np.flatnonzero(rows["messages"] > GROWTH * self._reported[: len(rows)])
        self._reported[at] = rows["messages"][at]
        grown_rows: Rows = rows[at]
        return grown_rows
