"""Time of a step of the application with the analysis in each place of its node."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from chimbuko.plan.placingcosts import Slowdown, usual

FRACTIONS = (0.25, 0.5)
"""Shares of a core that a quota can give."""
FALLS_BEHIND = 0.9
"""Share of its cores above which an analysis has no room for bursts of events."""
_HALVINGS = 60


class Where(StrEnum):
    """Place of the analysis."""

    SHARED = "shared"
    """Tasks on all cores of the node, in turn with the application: synchronous, equation 4."""
    INSIDE = "inside"
    """Tasks on some of the application's cores, for whose ranks all others then wait."""
    OWN = "own"
    """Tasks on cores that the application does not use: asynchronous, equation 5."""


class Placement(msgspec.Struct, frozen=True):
    """Placement of the agents of one node."""

    where: Where
    cores: float
    """Cores of the analysis; below 1 what a CPU quota gives it of one core, or of all that it shares."""

    @property
    def is_fraction(self) -> bool:
        """Whether a quota divides a core."""
        return self.cores < 1

    def __str__(self) -> str:
        return f"{self.where}={self.cores:g}"


class NodeLoad(msgspec.Struct, frozen=True):
    """An application on one node, as it would go on without an analysis."""

    cores: int
    """Cores of the node, for application and analysis."""
    application_cores: int
    """Cores that the application keeps busy."""
    step_s: float
    """Seconds from one step of the trace to the next."""
    streams: int
    analysis_s: float
    """CPU time of the analysis of a step of all streams, in seconds."""

    @property
    def idle_cores(self) -> int:
        """Cores that the application leaves idle."""
        return max(self.cores - self.application_cores, 0)


class Outcome(msgspec.Struct, frozen=True):
    """Prediction for one placement."""

    placement: Placement
    step_s: float
    """Seconds of the application from one step to the next."""
    added_share: float
    """Time added by the analysis, as a share of the step without one."""
    busy_share: float
    """Share of its cores that the analysis needs in this time; above 1 it falls behind."""
    application_cores: int
    """Cores that are left to the application."""

    @property
    def keeps_up(self) -> bool:
        """Whether the analysis keeps up with the trace."""
        return self.busy_share <= FALLS_BEHIND


def outcome(node: NodeLoad, placement: Placement, slowdown: Slowdown | None = None) -> Outcome:
    """Predict the outcome of one placement.

    Its processes have equal shares of a core with the application's, so work that fits is done within the
    step, and what the application waits for it is that work: equation 4, divided by the cores that share it.
    On cores of its own it never holds up the application, since that writes into files or queues which lose
    steps rather than wait; what equation 5 takes as the slower side shows as ``busy_share``. Cores that are
    taken from the application slow it down in proportion (strong scaling). How much of the work it really
    waits for, with caches that are shared and work that falls unevenly on cores, is ``slowdown``, by default
    as it was measured.

    What a quota does not let through is left for later: then a step takes no more than that, and the analysis
    falls behind.
    """
    slowdown = slowdown or usual().slowdown
    left = node.application_cores
    if placement.where is Where.OWN:
        left = min(left, node.cores - math.ceil(placement.cores))
    least_s, with_s = (_with_s(node, placement, slowdown, left, done_s) for done_s in (0.0, node.analysis_s))
    if node.analysis_s > placement.cores * with_s:
        # What the quota lets through in a step is more, the longer the step is by it: halve until both agree.
        for _ in range(_HALVINGS):
            middle_s = (least_s + with_s) / 2
            done_s = min(node.analysis_s, placement.cores * middle_s)
            is_longer = _with_s(node, placement, slowdown, left, done_s) > middle_s
            least_s, with_s = (middle_s, with_s) if is_longer else (least_s, middle_s)
    busy = node.analysis_s / (placement.cores * with_s)
    return Outcome(placement, with_s, with_s / node.step_s - 1.0, busy, left)


def _with_s(node: NodeLoad, placement: Placement, slowdown: Slowdown, left: int, done_s: float) -> float:
    """Return the seconds of a step during which so much of the analysis is done."""
    if placement.where is Where.OWN:
        return node.step_s * (node.application_cores / left) + slowdown.own * done_s / left
    if placement.where is Where.INSIDE:
        return node.step_s + slowdown.inside * done_s / math.ceil(placement.cores)
    # What is idle takes as much of it as there is time, like cores of its own.
    beyond_s = max(done_s - node.idle_cores * node.step_s, 0.0)
    with_s = node.step_s + slowdown.own * (done_s - beyond_s) / left
    return with_s + slowdown.of_shared(node.cores) * beyond_s / node.cores


def outcomes(node: NodeLoad, slowdown: Slowdown | None = None) -> list[Outcome]:
    """Return the outcomes of all placements, the best first: those that keep up, of these whole cores, then
    the least time, then the fewest cores. A quota that is enough only puts off what comes in bursts.
    """
    most = min(node.streams + 1, node.cores)
    some = [*FRACTIONS, *range(1, min(most, node.cores - 1) + 1)] if node.cores > 1 else []
    places = [Placement(Where.SHARED, cores) for cores in (*FRACTIONS, node.cores)]
    places += [Placement(where, cores) for where in (Where.INSIDE, Where.OWN) for cores in some]
    found = [outcome(node, place, slowdown) for place in places]
    return sorted(found, key=_order)


def _order(one: Outcome) -> tuple[bool, bool, float, int, float]:
    order = (Where.OWN, Where.SHARED, Where.INSIDE)
    place = one.placement
    return (
        not one.keeps_up,
        place.is_fraction,
        round(one.added_share, 6),
        order.index(place.where),
        place.cores,
    )
