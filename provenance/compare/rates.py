"""How often calls are abnormal, how well that is known, and whether it has changed. Pure."""

from __future__ import annotations

import math

import msgspec

MORE = 2.0
"""Times as many per call are more."""
LEAST_DEVIATIONS = 3.3
"""More is more only if chance alone would bring it in less than one of a thousand cases."""

_TWO_SIDED_95 = 1.96
_MILLION = 1e6


class Rate(msgspec.Struct, frozen=True):
    """Anomalies per million calls, and the bounds of the true rate with a confidence of 95 %."""

    anomalies: int
    calls: int
    per_million: float
    low: float
    high: float

    @classmethod
    def of(cls, anomalies: int, calls: int) -> Rate:
        """Bounds after Wilson (1927), which hold for few and for none."""
        if not calls:
            return cls(0, 0, 0.0, 0.0, _MILLION)
        share, z2 = anomalies / calls, _TWO_SIDED_95**2
        centre = (share + z2 / (2 * calls)) / (1 + z2 / calls)
        half = _TWO_SIDED_95 / (1 + z2 / calls) * math.sqrt(share * (1 - share) / calls + z2 / (4 * calls**2))
        # At none, and at all, the bound is exact but for rounding.
        low = min(share, max(0.0, centre - half))
        high = max(share, min(1.0, centre + half))
        return cls(anomalies, calls, _MILLION * share, _MILLION * low, _MILLION * high)


def has_more(before: Rate, after: Rate) -> bool:
    """Whether anomalies are more frequent after than before, by far and not by chance."""
    if not (before.calls and after.calls):
        return False
    # Half an anomaly more in each keeps the ratio finite.
    first, second = before.anomalies + 0.5, after.anomalies + 0.5
    ln_ratio = math.log(second / after.calls) - math.log(first / before.calls)
    return ln_ratio >= max(math.log(MORE), LEAST_DEVIATIONS * math.sqrt(1 / first + 1 / second))
