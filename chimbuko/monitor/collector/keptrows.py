"""Rows of samples that are kept on the node: the newest ones, and sums over the others. No I/O."""

from __future__ import annotations

import numpy as np

from chimbuko.monitor.collector.fastring import SliceRing
from chimbuko.monitor.sampling.intervals import summed
from chimbuko.monitor.sampling.nodebatch import Rows
from chimbuko.monitor.sampling.rows import CORE, GPU, NODE, OTHER, THREAD

MOST_UNSUMMED = 64
"""Periods, or looks, whose rows are kept until they are summed: to sum them takes as long as some periods."""
KEYS: dict[str, list[str]] = {
    "threads": ["pid", "tid"],
    "cores": ["cpu"],
    "others": ["pid", "core"],
    "states": [],
    "gpus": ["gpu"],
}
"""Columns by which rows are summed."""


class KeptRows:
    """Rows by kind, each in a ring that gives it away once, and in the sum that is being made."""

    def __init__(self) -> None:
        self._rings = {
            "threads": SliceRing(THREAD, 65_536),
            "cores": SliceRing(CORE, 8192),
            "others": SliceRing(OTHER, 4096),
            "states": SliceRing(NODE, 512),
            "gpus": SliceRing(GPU, 4096),
        }
        self._unsummed: dict[str, list[Rows]] = {name: [] for name in KEYS}

    def put(self, kind: str, rows: Rows) -> None:
        """Add rows that end later than those before."""
        self._rings[kind].put(rows)
        self.add(kind, rows)

    def add(self, kind: str, rows: Rows) -> None:
        """Add rows of any time to the sum alone."""
        unsummed = self._unsummed[kind]
        unsummed.append(rows)
        if len(unsummed) > MOST_UNSUMMED:
            self._unsummed[kind] = [summed(np.concatenate(unsummed), KEYS[kind])]

    def take(self, begin_us: int, end_us: int) -> dict[str, Rows]:
        """Return the rows of an interval that were not taken before."""
        return {kind: ring.take(begin_us, end_us) for kind, ring in self._rings.items()}

    def take_sums(self) -> dict[str, Rows]:
        """Return the sums since the last call, of the kinds of which there are rows."""
        unsummed, self._unsummed = self._unsummed, {name: [] for name in KEYS}
        return {kind: summed(np.concatenate(rows), KEYS[kind]) for kind, rows in unsummed.items() if rows}
