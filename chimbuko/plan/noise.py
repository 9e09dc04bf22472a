"""Slowdown of an application by an analysis that shares its cores, where its ranks wait for each other.

Between two collective operations a rank is delayed if the analysis works on its core just then. All wait for
the rank that is delayed most, so that what is little for one rank adds up over many: the largest of n delays.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.plan.loads import READERS, Pipeline, UnitCosts, loads
from chimbuko.plan.placingcosts import usual

SPREAD = 0.2
"""Standard deviation of the logarithm of a burst's time."""
MEETS_S = 0.01
"""Time between two collective operations where nothing else is said, in seconds."""
_POINTS = 100
"""Number of lengths at which delays are summed; 1,000 change the result by less than 1 %."""
_MOST_TOUCHED = 2_000
"""Most intervals that one burst is followed through."""


class Moments(StrEnum):
    """When the analysis of each rank works."""

    APART = "apart"
    """At moments of each rank's own, as where traces are cut when they are long enough."""
    TOGETHER = "together"
    """At the same moment on all ranks, as where steps end by one clock."""


class Noise(msgspec.Struct, frozen=True):
    """Work of the analysis on the core of each rank: a burst in each period."""

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
    most_share: float = 1.0
    """Largest delay of an interval, as a share of it: 1 where a burst and a rank share a core evenly."""

    @property
    def burst_s(self) -> float:
        """Mean delay by one burst, in seconds."""
        return self.share * self.period_s * self.slowdown


class Effect(msgspec.Struct, frozen=True):
    """Time that the analysis adds to the run of the application, by where and when it works."""

    where: str
    added_share: float
    advice: str
    """How to have it so."""


_erfc = np.frompyfunc(math.erfc, 1, 1)


def _beyond(deviations: Float64Array) -> Float64Array:
    """Return how likely a normal deviate is larger. SciPy, which has that too, would take 110 MB."""
    return 0.5 * np.asarray(_erfc(deviations / math.sqrt(2.0)), np.float64)


def added_share(noise: Noise, ranks: int, meets_s: float) -> float:
    """Return the run time that is added, as a share of that without an analysis.

    The burst of a rank begins in one of the intervals between collectives that ``within_s`` has. Each
    interval gives it the same share at most, and what is left goes on in the next one. In each interval all
    wait for the largest delay of n, whose mean is the integral of 1 - F(x)^n. One rank alone is delayed by
    its share, whatever the interval.
    """
    if noise.burst_s <= 0:
        return 0.0
    longest_s = noise.most_share * meets_s
    # The median of a log-normal with this mean; one in 10^9 is longer than six standard deviations.
    median_s = noise.burst_s * math.exp(-(noise.spread**2) / 2)
    most_s = median_s * math.exp(6 * noise.spread)
    touched = min(math.ceil(most_s / longest_s), _MOST_TOUCHED)
    width_s = min(longest_s, most_s) / _POINTS
    delay_s = (np.arange(_POINTS) + 0.5) * width_s
    # How likely the burst of a rank delays it by more than that in the interval in which it begins, or in
    # one of those after it: [interval, delay].
    passed_s = longest_s * np.arange(touched)[:, np.newaxis]
    longer = _beyond(np.log((passed_s + delay_s) / median_s) / max(noise.spread, 1e-6))
    begun = np.cumsum(longer, axis=0)
    intervals = max(round(noise.within_s / meets_s), 1)
    if noise.within_s >= noise.period_s:
        return intervals * _largest_s(begun[-1:] / intervals, ranks, width_s) / noise.period_s
    # Of the first intervals fewer bursts may be going on, and none begins after the last one.
    at = np.arange(intervals + touched - 1)
    gone = np.where(at[:, np.newaxis] < intervals, 0.0, begun[np.maximum(at - intervals, 0) % touched])
    going = begun[np.minimum(at, touched - 1)] - gone
    return _largest_s(going / intervals, ranks, width_s) / noise.period_s


def _largest_s(longer: Float64Array, ranks: int, width_s: float) -> float:
    """Return the mean of the largest delay of n ranks, summed over intervals.

    Parameters
    ----------
    longer
        Probability that one rank is delayed by more. Shape (intervals, delays).
    width_s
        Time from one of these delays to the next, in seconds.
    """
    none = ranks * np.log1p(-np.minimum(longer, 1.0 - 1e-12))
    return float(-np.expm1(none).sum() * width_s)


def noise_of(run: Pipeline, costs: UnitCosts, when: Moments, has_own_core: bool) -> Noise:
    """Return what the analysis of a run does on the cores of its ranks."""
    (readers,) = (one for one in loads(run, costs) if one.part == READERS)
    within_s = run.period_s if when is Moments.APART else 0.0
    share = readers.cores / run.on_node
    if not has_own_core:
        return Noise(share, run.period_s, within_s, slowdown=usual().slowdown.inside)
    # What caches and memory lose by it is shared by all ranks of the node.
    slowdown, cores = usual().slowdown.own, run.agent_cores / run.on_node
    return Noise(share, run.period_s, within_s, slowdown=slowdown, most_share=slowdown * cores)


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
