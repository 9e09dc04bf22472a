"""Which abnormal calls are recorded where a function has very many: the most severe, and so many per period.

A token bucket per function, which trace time fills: so the same calls are kept whenever, and by however
many agents, the trace is analysed.
"""

from __future__ import annotations

import numpy as np

from chimbuko.ad.additions import Int32Array
from chimbuko.ad.selection import Selection
from chimbuko.config import AnalysisConfig
from chimbuko.moments import Float64Array

BURST_PERIODS = 10
"""A function that was quiet for so many periods may have as many records at once as it could have had."""


class FloodLimit:
    """Leaves out abnormal calls of one stream that are too many of their function.

    Never left out is the most severe call of its function so far, nor one that was open across steps:
    each thread has few of these, and they may have been reported while they were open.
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self._most_per_us = config.max_anomalies_per_function / config.period_us
        self._burst = float(BURST_PERIODS * config.max_anomalies_per_function)
        self._room = np.empty(0)
        """f8[timers]: how many records there is room for, as of ``_at_us``."""
        self._at_us = np.empty(0)
        self._highest_us = np.empty(0)

    def keep(self, selection: Selection, functions: Int32Array, carried: int, now_us: int) -> Selection:
        """The selection of a step without the calls that are too many.

        Parameters
        ----------
        functions
            i4[n]: timer of each selected call.
        carried
            So many rows of the call table are calls of earlier steps.
        now_us
            End of the step.
        """
        (at,) = np.nonzero(selection.is_anomaly & (selection.rows >= carried))
        if not len(at):
            return selection
        # By function, the most severe first; where two are alike the earlier one.
        at = at[np.lexsort((-selection.severity_us[at], functions[at]))]
        found, begins, counts = np.unique(functions[at], return_index=True, return_counts=True)
        room = self._refilled(found, now_us)
        worst_us = selection.severity_us[at[begins]]
        most = np.maximum(room.astype(np.int64), worst_us > self._highest_us[found])
        self._room[found] = np.maximum(room - np.minimum(counts, most), 0.0)
        self._highest_us[found] = np.maximum(self._highest_us[found], worst_us)
        places = np.arange(len(at)) - np.repeat(begins, counts)
        return selection.without(at[places >= np.repeat(most, counts)])

    def _refilled(self, functions: Int32Array, now_us: int) -> Float64Array:
        known = len(self._room)
        if functions[-1] >= known:
            more = max(int(functions[-1]) + 1, 2 * known) - known
            self._room = np.concatenate([self._room, np.full(more, self._burst)])
            self._at_us = np.concatenate([self._at_us, np.zeros(more)])
            self._highest_us = np.concatenate([self._highest_us, np.zeros(more)])
        # Times of a damaged trace may run back.
        passed_us = np.maximum(now_us - self._at_us[functions], 0.0)
        self._at_us[functions] = now_us
        return np.minimum(self._room[functions] + passed_us * self._most_per_us, self._burst)
