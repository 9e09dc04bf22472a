"""Sleep inside calls, estimated by looks at their threads."""

from __future__ import annotations

LEAST_LOOKED_US = 200_000.0
"""Time for which looks must stand before their shares say anything: ten looks."""


def slept_us(spent_us: float, looked_us: float, asleep_us: float) -> float | None:
    """Return how much of the exclusive time of calls their threads slept; None where too few looks say so.

    Parameters
    ----------
    spent_us
        Exclusive time of the calls.
    looked_us, asleep_us
        Time for which the looks stand that found these calls innermost, and the part of it asleep. Looks
        begin later than the program, and some are lost: they give the share, and not the time.
    """
    if looked_us < LEAST_LOOKED_US:
        return None
    return spent_us * min(1.0, asleep_us / looked_us)
