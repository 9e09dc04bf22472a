"""Sum over a longer time that is being made: when it is due, and what was found in its time. No I/O."""

from __future__ import annotations

import numpy as np

from chimbuko.monitor.collector.description import found_between
from chimbuko.monitor.samples.nodebatch import NodeFinding, Rows
from chimbuko.monitor.samples.rows import GPU, OTHER
from chimbuko.monitor.sampling.sample import Sample

FIRST_SUM_S = 10.0
SUMS_OF_A_LENGTH = 120
"""After so many sums they are twice as long: their number grows with the logarithm of a run's length."""


class CurrentSum:
    """Time of a sum, one after the other, with its first and last sample that have threads in them."""

    def __init__(self) -> None:
        self._begin_us = 0
        self._made = 0
        """Number of sums that are made."""
        self._first: Sample | None = None
        self._last: Sample | None = None
        self._periods = 0
        """Number of periods between the first and the last sample."""

    def take(self, sample: Sample) -> None:
        """Note the sample of a period."""
        if sample.threads:
            self._periods += self._first is not None
            self._first, self._last = self._first or sample, sample

    @property
    def is_first(self) -> bool:
        """Whether no sum has been made before."""
        return self._made == 0

    def is_due(self, now_us: int) -> bool:
        """Return whether it is time for the sum; the first one begins when this is asked first."""
        self._begin_us = self._begin_us or now_us
        return now_us >= self._begin_us + int(1e6 * FIRST_SUM_S * 2 ** (self._made // SUMS_OF_A_LENGTH))

    def begin_next(self, now_us: int) -> int:
        """Begin the time of the next sum, and return when that of this one began."""
        begin_us, self._begin_us = self._begin_us, now_us
        return begin_us

    def findings(self, rows: dict[str, Rows]) -> list[NodeFinding]:
        """Return the findings in the time of the sum, of which these are the rows, by kind."""
        if self._first is None or self._last is None or self._periods == 0:
            return []
        others, gpus = rows.get("others", np.zeros(0, OTHER)), rows.get("gpus", np.zeros(0, GPU))
        return found_between(self._first, self._last, self._periods, rows["threads"], others, gpus)

    def note_made(self) -> None:
        """Note that the sum is made: the next one begins with its last sample."""
        self._first, self._periods = self._last, 0
        self._made += 1
