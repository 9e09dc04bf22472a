"""Time in the functions of one stream by thread, by which a thread that always takes longer than its like is
found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.callpaths import add_by_thread
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Int32Array, Int64Array, Rows, as_table
from chimbuko.core.calls.pathtable import THREAD_PATH_TIME
from chimbuko.core.kernels.paths import OTHERS

THREAD_TIME = np.dtype([("calls", np.int64), ("exclusive_us", np.float64)], align=True)
"""Time in the calls of one thread on one path."""
MOST_THREADS = 64
"""Maximum number of threads that are compared, the first ones."""
MOST_COMPARED = 1 << 10
"""Maximum number of paths that are compared, the first ones: with 16 kB a thread, 1 MB in all."""
MOST_UNEQUAL = 16
"""Maximum number of functions whose times by thread are stored: 20 kB."""
LEAST_FACTOR = 1.25
"""Factor between the means of two threads from which a function's times are stored, less than any finding
takes.
"""


class ThreadTimes:
    """Calls of one stream, added up by thread and call path from the step on that has a second thread."""

    def __init__(self) -> None:
        self._times = as_table(np.zeros(0, THREAD_TIME))

    def __getstate__(self) -> dict[str, Any]:
        rows = np.flatnonzero(self._times["calls"])
        return {"size": len(self._times), "rows": rows, "times": np.asarray(self._times)[rows]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        times = np.zeros(state["size"], THREAD_TIME)
        times[state["rows"]] = state["times"]
        self._times = as_table(times)

    def read(self, stacks: CallStacks) -> None:
        """Add the calls of the step whose ``stacks`` were built, and whose call paths are known."""
        if stacks.thread_count < 2:
            return
        size = min(stacks.thread_count, MOST_THREADS) * MOST_COMPARED
        if size > len(self._times):
            # Memory that is 0 is not in use until it is written.
            larger = np.zeros(size, THREAD_TIME)
            larger[: len(self._times)] = self._times
            self._times = as_table(larger)
        add_by_thread(stacks.calls, stacks.count, MOST_COMPARED, self._times)

    def unequal(self, functions: Int32Array, paths: Int64Array, threads: Rows) -> Rows:
        """Return ``THREAD_PATH_TIME`` rows of functions that threads take unequally long in, the costliest of
        these; in ``OTHERS``, what else each of these threads took.

        Parameters
        ----------
        functions, paths
            Function and number of each path that may stand in the rows, ``OTHERS`` first.
        threads
            ``THREAD`` rows; without an id they are not compared.
        """
        table = np.asarray(self._times).reshape(-1, MOST_COMPARED)
        numbers = np.flatnonzero(threads["id"][: len(table)] != NONE)
        if len(numbers) < 2:
            return np.zeros(0, THREAD_PATH_TIME)
        kept = np.flatnonzero((paths < MOST_COMPARED) & (paths != OTHERS))
        found = table[np.ix_(numbers, paths[kept])]
        named, at = np.unique(functions[kept], return_inverse=True)
        calls, spent_us = np.zeros((len(named), len(numbers)), np.int64), np.zeros((len(named), len(numbers)))
        np.add.at(calls, at, found["calls"].T)
        np.add.at(spent_us, at, found["exclusive_us"].T)
        means_us = np.divide(spent_us, calls, out=np.full(spent_us.shape, np.nan), where=calls > 0)
        several = np.flatnonzero((calls > 0).sum(axis=1) > 1)
        least_us, most_us = (of(means_us[several], axis=1) for of in (np.nanmin, np.nanmax))
        several = several[most_us > LEAST_FACTOR * np.maximum(least_us, 0.0)]
        costly = several[np.argsort(-spent_us[several].sum(axis=1), kind="stable")[:MOST_UNEQUAL]]
        if not len(costly):
            return np.zeros(0, THREAD_PATH_TIME)
        return _rows(table[numbers], threads["id"][numbers], paths, kept[np.isin(at, costly)])


def _rows(times: Rows, ids: Int32Array, paths: Int64Array, chosen: Int64Array) -> Rows:
    """Return ``THREAD_PATH_TIME`` rows of ``THREAD_TIME[threads, paths]``."""
    rows = np.zeros((len(ids), 1 + len(chosen)), THREAD_PATH_TIME)
    rows["thread"] = ids[:, np.newaxis]
    rows["path"][:, 1:] = chosen
    for name in ("calls", "exclusive_us"):
        of_paths = times[name][:, paths[chosen]]
        rows[name][:, 1:] = of_paths
        rows[name][:, 0] = times[name].sum(axis=1) - of_paths.sum(axis=1)
    flat = rows.reshape(-1)
    return flat[flat["calls"] > 0]
