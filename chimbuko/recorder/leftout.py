"""Functions that are called so often, and are so short, that recording them tells nothing and costs much."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chimbuko.arrays import Int64Array
from chimbuko.recorder.layout import LEFT_OUT, NAMED
from chimbuko.recorder.ring import Events, ProcessFile, Ring
from chimbuko.trace.schema import LEFT_OUT_FUNCTIONS

SHORT_NS = 1000
"""Calls that are shorter in the mean, and call nothing that is recorded ..."""
MOST_PER_SECOND = 100_000
"""... and are more than so many, are left out from then on."""
LEAST_SECONDS = 0.1
"""Over a shorter time nobody can say how many there are in a second."""
MOST_LEFT_OUT = LEFT_OUT // 2
"""The library's table is searched at each call."""

_HASH = 0x9E3779B97F4A7C15


class LeftOut:
    """Decides which functions of one process are recorded no longer, and tells its library so."""

    def __init__(self, process: ProcessFile) -> None:
        self._process = process
        self._count = 0

    def look_at(self, calls: Events, codes: Int64Array) -> None:
        """See what one thread called lately.

        Parameters
        ----------
        calls
            ENTRY and EXIT, in order.
        codes
            ``timer << 1 | event type`` of each.
        """
        if len(calls) < 2 * MOST_PER_SECOND * LEAST_SECONDS:
            return
        times = calls["time_ns"]
        seconds = max(float(times[-1] - times[0]) * 1e-9, LEAST_SECONDS)
        # Those that call nothing: their EXIT follows on their ENTRY.
        (at,) = np.nonzero((codes[:-1] & 1 == 0) & (codes[1:] == codes[:-1] + 1))
        timers = codes[at] >> 1
        numbers = np.bincount(timers)
        total_ns = np.bincount(timers, (times[at + 1] - times[at]).astype(np.float64))
        is_runaway = (numbers > MOST_PER_SECOND * seconds) & (total_ns < SHORT_NS * numbers)
        for timer in np.nonzero(is_runaway)[0].tolist():
            self._leave_out(int(calls["value"][at[timers == timer][0]]))

    def _leave_out(self, key: int) -> None:
        table = self._process.field("left_out")
        slot = (key * _HASH & (1 << 64) - 1) >> 54
        while table[slot] not in (0, key):
            slot = (slot + 1) % LEFT_OUT
        if table[slot] == 0 and self._count < MOST_LEFT_OUT:
            table[slot] = key
            self._count += 1
            # The library looks into the table from its first entry on.
            self._process.set_number("left_out_count", self._count)

    def report(self, rings: Sequence[Ring], names_of: Callable[[Sequence[int]], list[str]]) -> dict[str, str]:
        """Metadata that says which functions were left out, how often, and how to exclude them for good."""
        table = self._process.field("left_out")
        rows = np.nonzero(table)[0]
        if not len(rows):
            return {}
        calls = sum((ring.left_out().astype(np.int64) for ring in rings), np.zeros(LEFT_OUT, np.int64))
        order = rows[np.argsort(-calls[rows])]
        keys = [int(key) for key in table[order]]
        names = names_of(keys)
        counted = ", ".join(f"{calls[row]} of {name}" for row, name in zip(order, names, strict=True))
        functions = [name.partition("(")[0] for key, name in zip(keys, names, strict=True) if not key & NAMED]
        flag = f"-finstrument-functions-exclude-function-list={','.join(functions)}"
        advice = f"; to exclude them for good compile with {flag}" if functions else ""
        return {LEFT_OUT_FUNCTIONS: f"{int(calls[rows].sum())} calls ({counted}){advice}"}
