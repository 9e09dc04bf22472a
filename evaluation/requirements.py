"""What the default detector has to reach, and whether it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evaluation.annotated import AnnotatedResult
from evaluation.causes import CauseResult
from evaluation.gpu import PairResult
from evaluation.injections import INJECTED
from evaluation.measure import Measured
from evaluation.prior import PriorResult
from evaluation.processes import LiveResult
from evaluation.recorded import RecordedResult
from evaluation.recurring import MUST_BE_REPORTED, Reported
from evaluation.scenarios import CLEAN, SHORT
from evaluation.score import f1_of_sets
from evaluation.tables import ResultTable

CLEAR_RECALL = 0.99
CLEAR_PRECISION = 0.95
GAMMA_F1 = 0.9
MOST_FALSE_PER_100K = 1.0
QUIET = ("gamma", "two modes 50/50", "two modes 95/5")
"""Scenarios whose clean runs must stay quiet."""
LIVE_AGREEMENT = 0.95
RIGHT_SHARE = 0.9
REPORTED = 0.95
RIGHT_OF_EACH = 0.8
MOST_NOT_EXPLAINED = 0.2
FIRST_MINUTE = 0.9


SHORTFALLS = {
    "gamma, 2-6x: recall of clear delays": 0.85,
    "drift, 2-6x: recall of clear delays": 0.85,
    "repeats, 2-6x: recall of clear delays": 0.85,
    "young, 2-6x: recall of clear delays": 0.0,
    "two modes 50/50, 5-20x: recall of clear delays": 0.96,
    "two modes 50/50, 2-6x: recall of clear delays": 0.95,
    "two modes 95/5, 5-20x: recall of clear delays": 0.96,
    "two modes 95/5, 2-6x: recall of clear delays": 0.65,
    "log-normal 0.6, 5-20x: recall of clear delays": 0.93,
    "log-normal 0.6, 5-20x: precision": 0.85,
    "func_multimodal, injected: recall of clear delays": 0.6,
    "mpi_comm_outlier, injected: recall of clear delays": 0.2,
    "mpi_threaded_comm_outlier, injected: recall of clear delays": 0.05,
    "multiinstance_nompi, injected: recall of clear delays": 0.25,
    "multigrid, injected: recall of clear delays": 0.94,
    "F1 of live flags with those in lockstep, injected": 0.5,
    "cupti multi-stream, injected: recall of clear delays": 0.75,
}
"""What falls short of its limit, and has to stay above this; docs/internals/detection.md says why."""


@dataclass(frozen=True)
class Requirement:
    """One figure and its limit."""

    what: str
    figure: float
    limit: float
    is_least: bool
    """The figure must not be below the limit; otherwise not above it."""

    @property
    def is_met(self) -> bool:
        """A figure that is not defined meets nothing."""
        return self.figure >= self.limit if self.is_least else self.figure <= self.limit

    @property
    def is_held(self) -> bool:
        """Met, or at least not worse than a shortfall that is known."""
        return self.is_met or (self.is_least and self.figure >= SHORTFALLS.get(self.what, self.limit))

    @property
    def row(self) -> tuple[str, ...]:
        """For the table."""
        sign = "≥" if self.is_least else "≤"
        answer = "yes" if self.is_met else f"no, ≥ {SHORTFALLS[self.what]:g}" if self.is_held else "NO"
        return self.what, f"{self.figure:.4g}", f"{sign} {self.limit:g}", answer


def least(what: str, figure: float, limit: float) -> Requirement:
    """The figure must reach the limit."""
    return Requirement(what, figure, limit, True)


def most(what: str, figure: float, limit: float) -> Requirement:
    """The figure must not exceed the limit."""
    return Requirement(what, figure, limit, False)


def table(requirements: Iterable[Requirement]) -> ResultTable:
    """One row each."""
    rows = [requirement.row for requirement in requirements]
    return ResultTable("Required of the default detector", ("what", "reached", "limit", "met"), rows)


def labelled(results: list[Measured]) -> list[Requirement]:
    """Of scenarios with a truth for each call; ``results`` of one detector."""
    found = []
    for result in results:
        where = f"{result.scenario}, {result.variant}"
        one = result.score
        if one.clear and result.scenario != SHORT:
            found.append(least(f"{where}: recall of clear delays", one.clear_recall, CLEAR_RECALL))
            found.append(least(f"{where}: precision", one.precision, CLEAR_PRECISION))
        if (result.scenario, result.variant) == ("gamma", "2-6x"):
            found.append(least(f"{where}: F1", one.f1, GAMMA_F1))
        if result.variant == CLEAN and result.scenario in QUIET:
            found.append(
                most(f"{where}: false flags per 100,000 calls", one.false_per_100k, MOST_FALSE_PER_100K)
            )
    same = [result.is_same_for_all for result in results]
    found.append(least("scenarios with the same flags for 1, 2 and 4 agents", sum(same), len(same)))
    delayed = [result for result in results if result.variant != CLEAN]
    agreement = f1_of_sets(
        sum(result.live_flags_in_common for result in delayed),
        sum(result.score.flags for result in delayed),
        sum(result.live.flags for result in delayed),
    )
    of_injected = ", injected" if all(result.variant == INJECTED for result in results) else ""
    what = f"F1 of live flags with those in lockstep{of_injected}"
    found.append(least(what, agreement, LIVE_AGREEMENT))
    return found


def recorded(results: list[RecordedResult]) -> list[Requirement]:
    """Of recorded traces; ``results`` of one detector."""
    found = []
    for result in results:
        found += [required(result) for required in _RECORDED.get(result.trace, [])]
        found.append(least(f"{result.trace}: same flags for 1, 2 and 4 agents", result.is_same_for_all, 1))
    return found


def prior(results: list[PriorResult]) -> list[Requirement]:
    """Of traces that begin with what earlier runs have learned."""
    if not results:
        return []
    found = sum(one.with_prior.clear_found for one in results)
    clear = sum(one.clear for one in results)
    what = "the first minute with a prior: recall of clear delays"
    return [
        least(what, found / clear, FIRST_MINUTE),
        *(
            most(
                f"{one.trace}{', live' * one.is_live}, begins with {one.prior}: other flags",
                one.with_prior.others,
                one.without.others,
            )
            for one in results
        ),
    ]


def annotated(results: list[AnnotatedResult]) -> list[Requirement]:
    """Of executions that were recorded twice."""
    return [
        most(
            f"{one.scenario}: difference in delays found through annotations and by the tracer",
            abs(one.by_annotations - one.by_tracer),
            1,
        )
        for one in results
    ]


def pairs(results: list[PairResult]) -> list[Requirement]:
    """Of kernels and their launches."""
    found = []
    for result in results:
        what = f"kernels that come {result.order}"
        found.append(least(f"{what}: launches found, of {result.kernels}", result.right, result.kernels))
        found.append(most(f"{what}: wrong launches", result.wrong, 0))
    return found


def recurring(results: list[Reported]) -> list[Requirement]:
    """Of delays that are frequent."""
    return [
        least(f"{one.scenario}: injected calls that are reported", one.share, REPORTED)
        for one in results
        if one.scenario in MUST_BE_REPORTED
    ]


def real(results: list[LiveResult]) -> list[Requirement]:
    """Of real runs."""
    found = []
    for result in results:
        if result.settled:
            recall = result.settled_found / result.settled
            found.append(least(f"{result.scenario}, real: recall of delays", recall, CLEAR_RECALL))
        else:
            what = f"{result.scenario}: F1 of live flags with those in lockstep"
            found.append(least(what, result.lockstep_agreement, LIVE_AGREEMENT))
    return found


def causes(results: list[CauseResult]) -> list[Requirement]:
    """Of MPI programs with one known cause each."""
    found = []
    for one in results:
        what = f"{one.scenario}, known cause"
        found.append(
            least(f"{what}: runs with the right top cause", one.right_runs / one.runs, RIGHT_OF_EACH)
        )
        if one.excess_us:
            found.append(most(f"{what}: excess that is not explained", one.not_explained, MOST_NOT_EXPLAINED))
    if results:
        share = sum(one.right_runs for one in results) / sum(one.runs for one in results)
        found.append(least("known causes: runs with the right top cause", share, RIGHT_SHARE))
    return found


_RECORDED: dict[str, list[Callable[[RecordedResult], Requirement]]] = {
    "heat4": [
        lambda one: least("heat4: delays found, of 41", one.found, 36),
        lambda one: most("heat4: flags", one.flags, 220),
        lambda one: least(
            "heat4: incidents with the right origin, of flagged delays",
            one.incidents.right_origins / one.incidents.flagged,
            RIGHT_SHARE,
        ),
        lambda one: least(
            "heat4: flagged waits in the right incident",
            one.incidents.right_waits / one.incidents.waits,
            RIGHT_SHARE,
        ),
        lambda one: most("heat4: waits named as origins", one.incidents.waits_as_origins, 0),
        lambda one: most("heat4: incidents and recurring findings", one.incidents.reported, 2 * one.delays),
    ],
    "threads": [
        lambda one: least("threads: delays found, of 12", one.found, 12),
        lambda one: most("threads: flags", one.flags, 37),
    ],
    "heat4_clean": [lambda one: most("heat4_clean: flags", one.flags, 110)],
}
