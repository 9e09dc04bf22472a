"""What a step of the application takes with the analysis in each place of its node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chimbuko.insitu.placing.usual import Slowdown, usual

FALLS_BEHIND = 0.9
"""Of its cores; an analysis that needs more has no room for what comes in bursts."""


class Where(StrEnum):
    """Of the analysis."""

    SHARED = "shared"
    """On all cores of the node, with the application: synchronous, equation 4."""
    INSIDE = "inside"
    """On some of the application's cores, whose ranks all others then wait for."""
    OWN = "own"
    """On cores that the application does not use: asynchronous, equation 5."""


@dataclass(frozen=True)
class Placement:
    """Of the agents of one node."""

    where: Where
    cores: int
    """Of the analysis."""

    def __str__(self) -> str:
        return f"{self.where}={self.cores}"


@dataclass(frozen=True)
class NodeLoad:
    """An application on one node, as it would go on without an analysis."""

    cores: int
    """Of the node, for application and analysis."""
    application_cores: int
    """That it keeps busy."""
    step_s: float
    """Seconds from one step of the trace to the next."""
    streams: int
    analysis_s: float
    """CPU time of the analysis of a step of all streams."""

    @property
    def idle_cores(self) -> int:
        """Which the application leaves."""
        return max(self.cores - self.application_cores, 0)


@dataclass(frozen=True)
class Outcome:
    """What is predicted of one placement."""

    placement: Placement
    step_s: float
    """Of the application."""
    added_share: float
    """Of the step without an analysis."""
    busy_share: float
    """Of the cores of the analysis, by what it has to do in this time; above 1 it falls behind."""
    application_cores: int
    """That are left to the application."""

    @property
    def keeps_up(self) -> bool:
        """Whether it can do all there is."""
        return self.busy_share <= FALLS_BEHIND


def outcome(node: NodeLoad, placement: Placement, slowdown: Slowdown | None = None) -> Outcome:
    """Of one placement.

    Its processes have equal shares of a core with the application's, so work that fits is done within the
    step, and what the application waits for it is that work: equation 4, divided by the cores that share it.
    On cores of its own it never holds up the application, since that writes into files or queues which lose
    steps rather than wait; what equation 5 takes as the slower side shows as ``busy_share``. Cores that are
    taken from the application slow it down in proportion (strong scaling). How much of the work it really
    waits for, with caches that are shared and work that falls unevenly on cores, is ``slowdown``, by default
    as it was measured.
    """
    slowdown = slowdown or usual().slowdown
    analysis_s, step_s, cores = node.analysis_s, node.step_s, placement.cores
    left = node.application_cores
    if placement.where is Where.OWN:
        left = min(node.application_cores, node.cores - cores)
        with_s = step_s * (node.application_cores / left) + slowdown.own * analysis_s / left
        busy = analysis_s / (cores * with_s)
    elif placement.where is Where.INSIDE:
        with_s = step_s + slowdown.inside * analysis_s / cores
        busy = analysis_s / (cores * with_s)
    else:
        # What is idle takes as much of it as there is time, like cores of its own.
        beyond_s = max(analysis_s - node.idle_cores * step_s, 0.0)
        with_s = step_s + slowdown.own * (analysis_s - beyond_s) / left
        with_s += slowdown.of_shared(node.cores) * beyond_s / node.cores
        # Nobody would call half of all cores an analysis that keeps up.
        busy = analysis_s / (cores * with_s)
    return Outcome(placement, with_s, with_s / step_s - 1.0, busy, left)


def outcomes(node: NodeLoad, slowdown: Slowdown | None = None) -> list[Outcome]:
    """Of all placements, the best first: those that keep up, then the least time, then the fewest cores."""
    most = min(node.streams + 1, node.cores)
    places = [Placement(Where.SHARED, node.cores)]
    places += [Placement(Where.INSIDE, cores) for cores in range(1, min(most, node.cores - 1) + 1)]
    places += [Placement(Where.OWN, cores) for cores in range(1, min(most, node.cores - 1) + 1)]
    found = [outcome(node, place, slowdown) for place in places]
    return sorted(found, key=lambda one: (not one.keeps_up, round(one.added_share, 6), _taken(one)))


def _taken(one: Outcome) -> tuple[int, int]:
    order = (Where.OWN, Where.SHARED, Where.INSIDE)
    return order.index(one.placement.where), one.placement.cores
