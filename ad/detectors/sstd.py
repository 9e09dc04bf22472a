"""The paper's detector: a call is abnormal outside μ ± ασ of its function's runtime."""

from __future__ import annotations

import math

import numpy as np

from chimbuko.ad.detectors import Judgement
from chimbuko.errors import ConfigError
from chimbuko.moments import Float64Array, Moments
from chimbuko.tables import PROFILE


class Sstd:
    """Flags runtimes beyond ``alpha`` sample standard deviations from the mean.

    Source: Chimbuko, ISAV'20, section III-B. A value that is itself in the statistics lies at most
    (n - 1)/sqrt(n) standard deviations from the mean, so at 6σ nothing is flagged before the 38th call.
    """

    name = "sstd"
    schema = PROFILE

    def __init__(self, alpha: float, metric: str) -> None:
        if not alpha > 0:
            raise ConfigError(f"alpha is {alpha}; it must be positive")
        self._alpha = alpha
        self._columns = PROFILE.slices[f"{metric}_us"]

    def limits(self, table: Float64Array) -> tuple[Float64Array, Float64Array]:
        """μ ± ασ; infinite for functions seen less than twice."""
        moments = table[:, self._columns]
        n, mean, m2 = moments[:, 0], moments[:, 1], moments[:, 2]
        reach = np.full(len(table), math.inf)
        known = n > 1
        reach[known] = self._alpha * np.sqrt(np.maximum(m2[known], 0.0) / (n[known] - 1))
        return mean - reach, mean + reach

    def judge(self, row: Float64Array, runtime_us: float) -> Judgement:
        """Score is the distance from the mean in standard deviations."""
        moments = Moments.from_row(row[self._columns])
        spread_us = moments.stddev
        deviation_us = runtime_us - moments.mean
        return Judgement(
            score=abs(deviation_us) / spread_us if spread_us > 0 else 0.0,
            severity_us=max(deviation_us, 0.0),
            expected_us=moments.mean,
            spread_us=spread_us,
            seen=int(moments.n),
        )
