"""Which abnormal calls are recorded where a function has very many: the most severe, and so many per period.

A token bucket per function, which trace time fills: so the same calls are kept whenever, and by however
many agents, the trace is analysed.
"""

from __future__ import annotations

import numpy as np

from chimbuko.ad.kernels.floodlimit import ALLOWANCE_WIDTH, ROOM, leave_out
from chimbuko.ad.records.selection import Selection
from chimbuko.core.arrays import Table, grown
from chimbuko.core.config import AnalysisConfig

BURST_PERIODS = 10
"""A function that was quiet for so many periods may have as many records at once as it could have had."""


class FloodLimit:
    """Leaves out abnormal calls of one stream that are too many of their function.

    Never left out is the most severe call of its function so far, nor one that was open across steps:
    each thread has few of these, and they may have been reported while they were open.
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self._most_per_us = config.max_anomalies_per_function / config.period_us
        self._unused = np.zeros(ALLOWANCE_WIDTH)
        self._unused[ROOM] = BURST_PERIODS * config.max_anomalies_per_function
        self._allowances = np.empty((0, ALLOWANCE_WIDTH))

    def keep(self, selection: Selection, calls: Table, carried: int, timers: int, now_us: int) -> Selection:
        """The selection of a step without the calls that are too many.

        Parameters
        ----------
        calls
            The call table; the first ``carried`` are of earlier steps.
        timers
            Their functions are below this.
        now_us
            End of the step.
        """
        if not len(selection.rows):
            return selection
        self._allowances = grown(self._allowances, timers, self._unused)
        left_out = np.empty(len(selection.rows), np.int32)
        count = leave_out(
            selection.rows,
            selection.is_anomaly,
            selection.severity_us,
            calls,
            carried,
            float(now_us),
            self._most_per_us,
            float(self._unused[ROOM]),
            self._allowances,
            left_out,
        )
        return selection.without(left_out[:count]) if count else selection
