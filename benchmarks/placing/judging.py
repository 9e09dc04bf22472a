"""What measured runs say of the model: predictions beside them, and whether it may be believed. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chimbuko.insitu.placing.placements import NodeLoad, Placement, Where, outcome
from chimbuko.insitu.placing.unitcosts import unit_costs
from chimbuko.insitu.placing.usual import Slowdown, UnitCosts
from chimbuko.insitu.quality import agreement
from chimbuko.protocol.telemetry import AgentLoad

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
}


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

    def predict_s(self, run: Run, split: str | None = None) -> float:
        """A step in a split, by default that of the run."""
        ranks, cores, placement = SPLITS[split or run.split]
        alone_s = self.alone[ranks][0] + self.alone[ranks][1] * run.rows
        # While the analysis goes on, seconds pass that it itself adds: twice is near enough.
        step_s = alone_s
        for _ in range(2):
            analysis_s = self.costs.cpu_s(step_s, ranks / run.every, run.rows)
            node = NodeLoad(cores, ranks, alone_s, ranks, analysis_s)
            step_s = outcome(node, placement, self.slowdown).step_s
        return step_s


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
    """Of one model on runs that it was not fitted to."""

    runs: int
    max_error: float
    r_squared: float
    added_errors: tuple[float, ...]
    """Of the added seconds, where they count."""
    least_apart: float
    """By how much the worst split of a load is above the best one, at least."""
    most_apart: float
    regret: float
    """By how much the split with the least prediction is above the best measured one, at most."""

    @property
    def failures(self) -> list[str]:
        """What is required and not so."""
        checks = {
            f"greatest error {self.max_error:.1%}": self.max_error <= MOST_ERROR,
            f"R² {self.r_squared:.3f}": self.r_squared >= LEAST_R_SQUARED,
            f"added seconds off by {max(self.added_errors, default=0):.0%}": bool(self.added_errors)
            and max(self.added_errors) <= MOST_ADDED_ERROR,
            f"best and worst only {self.most_apart:.0%} apart": self.most_apart >= LEAST_APART,
            f"the recommended split is {self.regret:.1%} above the best": self.regret <= MOST_REGRET,
        }
        return [text for text, is_met in checks.items() if not is_met]


def judge(model: Model, runs: Sequence[Run], has_analysis: bool = True) -> Verdict:
    """Of runs with an analysis; without ``has_analysis`` as if the model left it out."""

    def predict_s(run: Run) -> float:
        return model.predict_s(run) if has_analysis else model.alone_s(run)

    found = agreement([run.step_s for run in runs], [predict_s(run) for run in runs])
    added = []
    for run in runs:
        alone_s = model.alone_s(run)
        added_s = run.step_s - alone_s
        if added_s >= COUNTS_FROM * alone_s:
            added.append(abs(predict_s(run) - run.step_s) / added_s)
    loads: defaultdict[tuple[int, int], list[Run]] = defaultdict(list)
    for run in runs:
        loads[run.rows, run.every].append(run)
    apart, regrets = [], []
    for alike in loads.values():
        times_s = [run.step_s for run in alike]
        apart.append(max(times_s) / min(times_s) - 1.0)
        regrets.append(min(alike, key=predict_s).step_s / min(times_s) - 1.0)
    return Verdict(
        len(runs),
        found.max_relative_error,
        found.r_squared or 0.0,
        tuple(added),
        min(apart),
        max(apart),
        max(regrets),
    )
