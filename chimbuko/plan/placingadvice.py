"""Agents, cores, period and transport that are best for an application, by the time of its steps with the
analysis in each place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import format_share, number_of
from chimbuko.plan.placingcosts import Slowdown, UnitCosts, predictions_s, unit_costs, usual
from chimbuko.runtime.protocol.telemetry import AgentLoad

# Time of a step of the application with the analysis in each place of its node.


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


PERIODS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
USUAL_PERIOD_S = 1.0
MOST_STEP_BYTES = 5_000_000
"""Largest step of one stream that is advised, in bytes; larger ones can hold up an application."""
MOST_OF_PERIOD = 0.01
"""Largest share of the application's time that steps may cost by being many, on the cores that do the
analysis.
"""
WIDEST = 0.5
"""Largest share by which the CPU time of the analysis may be off where it is advised upon."""
STREAMS_PER_AGENT = 64
"""Number of streams that one agent gets. Its own thread is full with some hundred; what is left is for
bursts.
"""


class Measured(msgspec.Struct, frozen=True):
    """Measurements of one node in a run."""

    node: str
    agents: tuple[tuple[AgentLoad, ...], ...]
    """Intervals of each of its agents."""
    cores: tuple[int, ...]
    """Numbers of the cores that application and agents may use."""
    application_cores: float
    """Cores that its ranks kept busy, on average; 0 if it was not measured."""
    transport: str
    """Transport by which the trace came."""
    rank_cores: frozenset[int] = frozenset()
    """Cores that ranks are bound to; all, or none, where they are not."""
    is_bare: bool = False
    """Whether the program ran without an analysis beside it: its trace was recorded."""

    @property
    def loads(self) -> list[AgentLoad]:
        """Intervals of all agents in which there was something to do."""
        return [load for loads in self.agents for load in loads if load.steps and load.streams]

    @property
    def streams(self) -> int:
        """Number of streams of all agents."""
        return sum(max((load.streams for load in loads), default=0) for loads in self.agents)

    @property
    def seconds(self) -> float:
        """Longest time for which an agent was at work, in seconds."""
        return max(sum(load.seconds for load in loads) for loads in self.agents)


class Point(msgspec.Struct, frozen=True):
    """One interval: what was measured, and what all others predict."""

    rows_per_s: float
    steps_per_s: float
    measured_s: float
    """CPU time of the analysis of a step of all streams, in seconds."""
    predicted_s: float


class AgentAdvice(msgspec.Struct, frozen=True):
    """Advice for the agents of one node."""

    measured: Measured
    load: NodeLoad
    costs: UnitCosts
    rows_per_s: float
    bytes_per_s: float
    wait_s: float | None
    """Seconds from the end of a step to when its analysis had reached the agent; None if nobody saw it."""
    outcomes: tuple[Outcome, ...]
    """Outcomes of all placements, the best first."""
    agents: int
    cores: str
    """Cores to which agents are to keep, as ``--cores`` takes them; empty for all."""
    period_s: float
    transport: str
    why: tuple[str, ...]
    """Reasons, a sentence each."""
    spread: float | None
    """Factor by which ``load.analysis_s`` may be more or less in another run, 95 %; None for one interval."""

    @property
    def best(self) -> Outcome:
        """Recommended outcome."""
        return self.outcomes[0]

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Least and most CPU time of the analysis of a step in seconds, 95 %; None for one interval."""
        if self.spread is None:
            return None
        return self.load.analysis_s / self.spread, self.load.analysis_s * self.spread

    @property
    def is_certain(self) -> bool:
        """Whether the intervals agree well enough for an advice."""
        return self.spread is None or self.spread <= 1.0 + WIDEST

    def check_certain(self) -> None:
        """See that this can be followed.

        Raises
        ------
        ConfigError
            The intervals of the run differ too much.
        """
        if self.interval_s is not None and not self.is_certain:
            low_s, high_s = self.interval_s
            raise ConfigError(
                f"{self.measured.node}: no advice, since its intervals differ: the analysis of a step takes "
                f"{low_s:.2g} to {high_s:.2g} s of CPU time; run once more, longer or where nothing else runs"
            )


def points(loads: Sequence[AgentLoad]) -> list[Point]:
    """Return the points of intervals in which there was something to do."""
    found = []
    for one, predicted_s in zip(loads, predictions_s(loads).tolist(), strict=True):
        steps = one.steps / one.streams
        rates = one.rows / one.seconds, one.steps / one.seconds
        found.append(Point(*rates, one.cpu_s / steps, predicted_s / steps))
    return found


def spread_of(found: Sequence[Point]) -> float | None:
    """Return the factor by which the mean CPU time of intervals may be off, 95 %: two standard errors of the
    logarithms of what each took, as a multiple of what all others predict. None for a single interval.
    """
    taken = [one for one in found if one.measured_s > 0 and one.predicted_s > 0]
    if len(taken) < 2:
        return None
    squares = [math.log(one.measured_s / one.predicted_s) ** 2 for one in taken]
    return math.exp(2 * math.sqrt(sum(squares)) / len(taken))


def advise(measured: Measured, slowdown: Slowdown | None = None) -> AgentAdvice:
    """Return the best of all placements of a node.

    Parameters
    ----------
    slowdown
        What the application waits for the analysis; by default as it was measured.

    Raises
    ------
    ConfigError
        The run has not shown enough.
    """
    loads = measured.loads
    if not loads:
        raise ConfigError(
            f"{measured.node}: no agent has said what it takes; the program must go on for some steps"
        )
    costs = unit_costs(loads)
    slowdown = slowdown or usual().slowdown
    load = _bare(measured, costs, slowdown)
    found = outcomes(load, slowdown)
    best = found[0]
    bytes_per_s = sum(one.size_bytes for one in loads) / measured.seconds
    agents = max(1, math.ceil(load.streams / STREAMS_PER_AGENT))
    period_s, why_period = _period(load, costs, bytes_per_s / load.streams, best)
    transport = "files" if best.keeps_up else "sst"
    waits = [(one.wait_s, one.steps) for one in loads if one.wait_s is not None]
    waited = sum(steps for _, steps in waits)
    return AgentAdvice(
        measured=measured,
        load=load,
        costs=costs,
        rows_per_s=sum(one.rows for one in loads) / measured.seconds,
        bytes_per_s=bytes_per_s,
        wait_s=sum(wait_s * steps for wait_s, steps in waits) / waited if waited else None,
        outcomes=tuple(found),
        agents=agents,
        cores=_core_list(measured, best),
        period_s=period_s,
        transport=transport,
        why=(_why(load, best), *_quota(found), why_period, _why_transport(best)),
        spread=spread_of(points(loads)),
    )


def _bare(measured: Measured, costs: UnitCosts, slowdown: Slowdown) -> NodeLoad:
    """Return the application as it would go on without an analysis, from how it went on with one on all
    cores, or as it was recorded.
    """
    loads, streams = measured.loads, measured.streams
    steps = sum(one.steps for one in loads)
    step_s = sum(one.seconds * one.streams for one in loads) / steps
    taken_s = costs.cpu_s(sum(one.seconds for one in loads), steps, sum(one.rows for one in loads))
    analysis_s = taken_s * streams / steps
    cores = max(len(measured.cores), 1)
    busy = math.ceil(measured.application_cores - 0.1)
    application_cores = min(max(streams, busy, 1), cores)
    beyond_s = max(analysis_s - (cores - application_cores) * step_s, 0.0)
    added_s = slowdown.own * (analysis_s - beyond_s) / application_cores
    added_s += slowdown.of_shared(cores) * beyond_s / cores
    bare_s = step_s if measured.is_bare else max(step_s - added_s, step_s / 2)
    return NodeLoad(cores, application_cores, bare_s, streams, analysis_s)


def _period(load: NodeLoad, costs: UnitCosts, stream_bytes_per_s: float, best: Outcome) -> tuple[float, str]:
    """Return the shortest period from a second on whose steps cost little, and are small enough."""
    largest_s = MOST_STEP_BYTES / stream_bytes_per_s if stream_bytes_per_s else math.inf
    allowed = [period_s for period_s in PERIODS_S if period_s <= largest_s] or [PERIODS_S[0]]
    if allowed[-1] < USUAL_PERIOD_S:
        return allowed[
            -1
        ], f"in {USUAL_PERIOD_S:g} s a step would have more than {MOST_STEP_BYTES / 1e6:g} MB"
    room = best.placement.cores * MOST_OF_PERIOD
    for period_s in allowed:
        if period_s >= USUAL_PERIOD_S and costs.step * load.streams / period_s <= room:
            return (
                period_s,
                f"steps of {number_of(load.streams, 'streams')} cost less than "
                f"{format_share(MOST_OF_PERIOD)} of the cores",
            )
    return allowed[-1], "the longest that is usual: steps cost more than their rows"


def _core_list(measured: Measured, best: Outcome) -> str:
    if best.placement.where is Where.SHARED:
        return ""
    # Those that no rank is bound to first; of these the last.
    order = sorted(measured.cores, key=lambda core: (core in measured.rank_cores, -core))
    return ",".join(map(str, sorted(order[: math.ceil(best.placement.cores)])))


def _why(load: NodeLoad, best: Outcome) -> str:
    cores = number_of(math.ceil(best.placement.cores), "cores")
    if best.placement.where is Where.SHARED:
        return (
            f"the application uses all {load.cores} cores; {format_share(best.added_share, '.1f')} more time "
            "for each step is less than a core of them"
            if not load.idle_cores
            else "idle cores take the analysis"
        )
    if best.application_cores == load.application_cores:
        return f"{load.idle_cores} of {load.cores} cores are idle, and the analysis fits on {cores}"
    return f"the analysis on {cores} of its own costs less than what the application waits for it"


def _quota(found: Sequence[Outcome]) -> list[str]:
    """Return the share of a core that is enough, where less than one is."""
    best = found[0].placement
    enough = [
        one.placement.cores
        for one in found
        if one.keeps_up and one.placement.is_fraction and one.placement.where is best.where
    ]
    return [f"a CPU quota of {min(enough):g} of a core is enough for it there"] if enough else []


def _why_transport(best: Outcome) -> str:
    if best.keeps_up:
        return "the analysis keeps up, so files in the node's memory stay few"
    return "the analysis cannot keep up anywhere: over SST steps that nobody reads fill no memory"
