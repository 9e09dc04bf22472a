"""A detector: a call is abnormal where it takes more than so many times the mean of its function.

It stands apart, as it takes numpy, and most commands only ask for its threshold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chimbuko.plugins import PROFILE, AnalysisConfig, Judgements, Limits

FEW = 38
"""Calls of a function from which its mean is known well enough."""
Numbers = NDArray[np.float64]


class Ratio:
    """Flags runtimes of more than ``threshold`` times the mean."""

    name = "ratio"
    schema = PROFILE
    recheck_growth = 0.0

    def __init__(self, config: AnalysisConfig) -> None:
        self._columns = PROFILE.slices[f"{config.metric}_us"]

    def limits(self, table: Numbers, thresholds: Numbers) -> Limits:
        """No lower limit; nothing is abnormal of functions of which few calls are known."""
        n, mean_us, m2 = table[:, self._columns][:, :3].T
        highest_us = np.where(n >= FEW, thresholds * mean_us, np.inf)
        edges_us = np.stack([np.full(len(table), -np.inf), highest_us], axis=1)
        spread_us = np.sqrt(m2 / np.maximum(n - 1, 1))
        return Limits(edges_us, mean_us, np.stack([n, mean_us, spread_us], axis=1))

    def judge(self, measures: Numbers, runtimes_us: Numbers) -> Judgements:
        """Score is how many times the mean a call took."""
        n, mean_us, spread_us = measures.T
        score = np.divide(runtimes_us, mean_us, out=np.zeros(len(measures)), where=mean_us > 0)
        return Judgements(score, mean_us, spread_us, n)
