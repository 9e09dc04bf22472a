"""Slowdown of an application by an analysis that shares its cores, where its ranks wait for each other.

Between two collective operations a rank is delayed if the analysis works on its core just then. All wait for
the rank that is delayed most, so that what is little for one rank adds up over many: the largest of n delays.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec
import numpy as np
from scipy.special import ndtr

from chimbuko.plan.loads import Pipeline, loads
from chimbuko.plan.placingcosts import usual
from chimbuko.plan.unitcosts import READERS, UnitCosts

SPREAD = 0.2
"""Standard deviation of the logarithm of a burst's time."""
MEETS_S = 0.01
"""Time between two collective operations where nothing else is said, in seconds."""
_POINTS = 400
"""Number of lengths at which delays are summed; 4,000 change the result by less than a thousandth."""


class Moments(StrEnum):
    """When the analysis of each rank works."""

    APART = "apart"
    """At moments of each rank's own, as where traces are cut when they are long enough."""
    TOGETHER = "together"
    """At the same moment on all ranks, as where steps end by one clock."""


class Noise(msgspec.Struct, frozen=True):
    """What the analysis does on the core of each rank: a burst in each period."""

    share: float
    """Share of a core that it takes, per rank."""
    period_s: float
    """Seconds from one burst to the next."""
    within_s: float
    """Time in which all ranks have their burst, at random, in seconds: 0 together, a period apart."""
    spread: float = SPREAD
    """Standard deviation of the logarithm of a burst's time."""
    slowdown: float = 1.0
    """Time for which a rank is delayed by each second of the analysis: 1 where they share its core."""

    @property
    def burst_s(self) -> float:
        """Mean delay by one burst, in seconds."""
        return self.share * self.period_s * self.slowdown


class Effect(msgspec.Struct, frozen=True):
    """What the analysis adds to the run time of the application, by where and when it works."""

    where: str
    added_share: float
    advice: str
    """How to have it so."""


def added_share(noise: Noise, ranks: int, meets_s: float) -> float:
    """Return the run time that is added, as a share of that without an analysis.

    A burst falls into one of the intervals between collectives that ``within_s`` has, and into further ones
    where it is longer than these. A rank and a burst have equal shares of a core, so that an interval at most
    doubles. In each interval all wait for the largest delay of n, of which the mean is the integral of
    1 - F(x)^n. One rank alone is delayed by its share, whatever the interval.
    """
    if noise.burst_s <= 0:
        return 0.0
    intervals = max(noise.within_s / meets_s, 1.0)
    pieces = max(noise.burst_s / meets_s, 1.0)
    intervals = max(intervals, pieces)
    hit = min(pieces / intervals, 1.0)
    piece_s = noise.burst_s / pieces
    # The median of a log-normal with this mean.
    median_s = piece_s * math.exp(-(noise.spread**2) / 2)
    most_s = min(meets_s, median_s * math.exp(6 * noise.spread))
    delay_s = np.linspace(0.0, most_s, _POINTS + 1)[1:] - most_s / _POINTS / 2
    longer = 1.0 - ndtr(np.log(delay_s / median_s) / max(noise.spread, 1e-6))
    largest_s = float((-np.expm1(ranks * np.log1p(-np.minimum(hit * longer, 1 - 1e-12)))).sum())
    return intervals * largest_s * most_s / _POINTS / noise.period_s


def noise_of(run: Pipeline, costs: UnitCosts, when: Moments, has_own_core: bool) -> Noise:
    """Return what the analysis of a run does on the cores of its ranks."""
    (readers,) = (one for one in loads(run, costs) if one.part == READERS)
    slowdown = usual().slowdown.own if has_own_core else usual().slowdown.inside
    within_s = run.period_s if when is Moments.APART else 0.0
    return Noise(readers.cores / run.on_node, run.period_s, within_s, slowdown=slowdown)


def effects(run: Pipeline, costs: UnitCosts, meets_s: float = MEETS_S) -> tuple[Effect, ...]:
    """Return what the analysis adds to the application, in each way to have it, the worst first."""
    ways = (
        ("on the ranks' cores, at moments apart", Moments.APART, False, ""),
        ("on the ranks' cores, all at once", Moments.TOGETHER, False, "end steps by one clock on all nodes"),
        ("on a core of its own", Moments.APART, True, "leave a core of each node to it (--cores)"),
    )
    found = [
        Effect(where, added_share(noise_of(run, costs, when, has_own), run.ranks, meets_s), advice)
        for where, when, has_own, advice in ways
    ]
    return tuple(sorted(found, key=lambda one: -one.added_share))
