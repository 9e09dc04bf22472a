"""What measured runs say of the model: predictions beside them, and whether it may be believed. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chimbuko.plan.hypotheses import agreement
from chimbuko.plan.placingadvice import FALLS_BEHIND, NodeLoad, Outcome, Placement, Where, outcome
from chimbuko.plan.placingcosts import Slowdown, UnitCosts, unit_costs
from chimbuko.runtime.protocol.telemetry import AgentLoad

MOST_ERROR = 0.15
LEAST_R_SQUARED = 0.95
MOST_ADDED_ERROR = 0.30
COUNTS_FROM = 0.10
"""Of the application's time; what adds less is lost in what runs differ by."""
LEAST_APART = 0.20
MOST_REGRET = 0.05

SPLITS = {
    # Ranks, cores of the node, and where the analysis is.
    "shared": (2, 2, Placement(Where.SHARED, 2)),
    "inside": (2, 2, Placement(Where.INSIDE, 1)),
    "own": (1, 2, Placement(Where.OWN, 1)),
    "one core": (1, 1, Placement(Where.SHARED, 1)),
    "shared, ½ core": (2, 2, Placement(Where.SHARED, 0.5)),
    "own, ¼ core": (1, 2, Placement(Where.OWN, 0.25)),
    "inside, ⅛ core": (2, 2, Placement(Where.INSIDE, 0.125)),
}
WHOLE = [split for split, (_, _, placement) in SPLITS.items() if not placement.is_fraction]
"""Of whole cores; the others need a quota."""
PREDICTED = [split for split, (_, cores, _) in SPLITS.items() if cores == 2]
"""Of two cores."""


@dataclass(frozen=True)
class Run:
    """One run of the mini-application."""

    split: str
    """Of ``SPLITS``; ``alone 1`` and ``alone 2`` without an analysis."""
    ranks: int
    rows: int
    """Of a step of the application."""
    every: int
    """Steps of the application in one of the trace."""
    steps: int
    step_s: float
    analysis_cpu_s: float
    """During all steps."""

    @property
    def kept_up(self) -> bool:
        """Whether the analysis left some of the time that it could have had."""
        return self.analysis_cpu_s <= FALLS_BEHIND * SPLITS[self.split][2].cores * self.steps * self.step_s


def typical(runs: Sequence[Run]) -> list[Run]:
    """One of each configuration, with the medians of all its runs."""
    alike: defaultdict[tuple[str, int, int], list[Run]] = defaultdict(list)
    for run in runs:
        alike[run.split, run.rows, run.every].append(run)
    return [
        replace(
            each[0],
            step_s=statistics.median(run.step_s for run in each),
            analysis_cpu_s=statistics.median(run.analysis_cpu_s for run in each),
        )
        for each in alike.values()
    ]


@dataclass(frozen=True)
class Model:
    """Fitted to some runs."""

    alone: dict[int, tuple[float, float]]
    """By the number of ranks: seconds of a step, and of each of its rows."""
    costs: UnitCosts
    slowdown: Slowdown

    def alone_s(self, run: Run) -> float:
        """A step without an analysis."""
        step_s, row_s = self.alone[run.ranks]
        return step_s + row_s * run.rows

    def predict(self, run: Run) -> Outcome:
        """Of the split and the load of a run."""
        ranks, cores, placement = SPLITS[run.split]
        alone_s = self.alone_s(run)
        step_s = alone_s
        # While the analysis goes on, seconds pass that it itself adds: twice is near enough.
        for _ in range(2):
            analysis_s = self.costs.cpu_s(step_s, ranks / run.every, run.rows)
            found = outcome(NodeLoad(cores, ranks, alone_s, ranks, analysis_s), placement, self.slowdown)
            step_s = found.step_s
        return found


def fitted(runs: Sequence[Run]) -> Model:
    """The model of runs without an analysis, at two rates at least for each number of ranks, and with one.

    Few runs that others have slowed down do not change it much: of runs without an analysis the fastest of
    each rate counts, and of what others show the median.
    """
    alone = {}
    for ranks in (1, 2):
        least_s: dict[int, float] = {}
        for run in runs:
            if run.split == f"alone {ranks}":
                least_s[run.rows] = min(run.step_s, least_s.get(run.rows, run.step_s))
        slope, intercept = np.polyfit(list(least_s), list(least_s.values()), 1)
        alone[ranks] = float(intercept), float(slope)
    loads = [
        AgentLoad(
            run.steps * run.step_s,
            run.ranks,
            run.steps * run.ranks // run.every,
            run.steps * run.rows,
            0,
            run.analysis_cpu_s,
        )
        for run in runs
        if run.split in SPLITS
    ]
    bare = Model(alone, unit_costs(loads), Slowdown())
    return replace(bare, slowdown=_slowdown(bare, [run for run in runs if run.split in SPLITS]))


def _slowdown(bare: Model, runs: Sequence[Run]) -> Slowdown:
    """What each placement adds for a CPU-second of the analysis on a core: the median, none below 0."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        ranks, cores, placement = SPLITS[run.split]
        name = "inside" if cores == 1 else placement.where.value
        shared = ranks if placement.where is Where.OWN else placement.cores
        analysis_s = run.analysis_cpu_s / run.steps / shared
        found[name].append((run.step_s - bare.alone_s(run)) / analysis_s)
    return Slowdown(**{name: max(statistics.median(each), 0.0) for name, each in found.items()})


@dataclass(frozen=True)
class Verdict:
    """Of one model on configurations that it was not fitted to."""

    configurations: int
    max_error: float
    r_squared: float
    added_errors: tuple[float, ...]
    """Of the added seconds, where they count."""
    least_apart: float
    """By how much the worst split of a load is above the best one, at least."""
    most_apart: float
    regrets: tuple[float, ...]
    """By how much the recommended split of each load is above the best one that kept up."""
    behind: int
    """Configurations in which the analysis fell behind,"""
    behind_predicted: int
    """and in which that was predicted,"""
    behind_both: int
    """and both."""

    @property
    def failures(self) -> list[str]:
        """What is required and not so."""
        regret = max(self.regrets)
        checks = {
            f"greatest error {self.max_error:.1%}": self.max_error <= MOST_ERROR,
            f"R² {self.r_squared:.3f}": self.r_squared >= LEAST_R_SQUARED,
            f"added seconds off by {max(self.added_errors, default=0):.0%}": bool(self.added_errors)
            and max(self.added_errors) <= MOST_ADDED_ERROR,
            f"best and worst only {self.most_apart:.0%} apart": self.most_apart >= LEAST_APART,
            f"the recommended split is {regret:.1%} above the best": regret <= MOST_REGRET,
        }
        return [text for text, is_met in checks.items() if not is_met]


def judge(model: Model, runs: Sequence[Run], has_analysis: bool = True) -> Verdict:
    """Of runs with an analysis, one of each configuration; without ``has_analysis`` as if the model left it
    out.
    """
    alone_s = [model.alone_s(run) for run in runs]
    outcomes = [model.predict(run) for run in runs]
    says_s = [one.step_s for one in outcomes] if has_analysis else alone_s
    keeps_up = [one.keeps_up or not has_analysis for one in outcomes]
    found = agreement([run.step_s for run in runs], says_s)
    added = []
    for run, bare_s, predicted_s in zip(runs, alone_s, says_s, strict=True):
        if run.step_s - bare_s >= COUNTS_FROM * bare_s:
            added.append(abs(predicted_s - run.step_s) / (run.step_s - bare_s))
    # As ``placements.outcomes`` orders them.
    order = [
        (not keeps, SPLITS[run.split][2].is_fraction, round(step_s, 6))
        for run, keeps, step_s in zip(runs, keeps_up, says_s, strict=True)
    ]
    loads: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for at, run in enumerate(runs):
        loads[run.rows, run.every].append(at)
    apart, regrets = [], []
    for alike in loads.values():
        times_s = [runs[at].step_s for at in alike]
        apart.append(max(times_s) / min(times_s) - 1.0)
        order = {
            at: (not keeps_up[at], SPLITS[runs[at].split][2].is_fraction, round(says_s[at], 6))
            for at in alike
        }
        recommended = runs[min(alike, key=lambda at: order[at])]
        best_s = min((runs[at].step_s for at in alike if runs[at].kept_up), default=math.nan)
        regrets.append(recommended.step_s / best_s - 1.0 if recommended.kept_up else math.inf)
    behind = [not run.kept_up for run in runs]
    return Verdict(
        len(runs),
        found.max_relative_error,
        found.r_squared or 0.0,
        tuple(added),
        min(apart),
        max(apart),
        tuple(regrets),
        sum(behind),
        sum(not keeps for keeps in keeps_up),
        sum(is_so and not keeps for is_so, keeps in zip(behind, keeps_up, strict=True)),
    )
