"""Labelled runs, measured: with 1, 2 and 4 agents in lockstep, whatever happens to them, and as if live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from chimbuko.core.config import AnalysisConfig
from evaluation.cluster import Cluster
from evaluation.interleaving import TroubledCluster
from evaluation.labelled import LabelledRun
from evaluation.scenarios import CLEAN
from evaluation.score import Score, f1_of_sets, flags_of, pooled, score
from evaluation.tables import ResultTable, number

AGENTS = (1, 2, 4)
SHOWN_AGENTS = (1, 4)
LIVE_SEED = 1
TROUBLE_SEED = 1
IDEAL = "1e-5 quantile"
"""Stands in the place of a detector's name: a limit for which the function's law has to be known."""


@dataclass(frozen=True)
class Case:
    """One run of one scenario, and who judges it."""

    scenario: str
    variant: str
    make: Callable[[], LabelledRun]
    config: AnalysisConfig


@dataclass(frozen=True)
class Measured:
    """What one detector did in one scenario and variant, over all seeds."""

    scenario: str
    variant: str
    detector: str
    by_agents: dict[int, Score]
    """In lockstep, over a troubled broker."""
    is_same_for_all: bool
    """The same calls are flagged as by one agent undisturbed, in every run."""
    live: Score
    """With 4 agents, nobody waiting."""
    live_flags_in_common: int
    """With those in lockstep."""
    ideal: Score
    """Of a limit at each function's clean 1e-5 quantile."""

    @property
    def score(self) -> Score:
        """In lockstep with most agents."""
        return self.by_agents[AGENTS[-1]]

    @property
    def live_agreement(self) -> float:
        """F1 of the live flags with those in lockstep."""
        return f1_of_sets(self.live_flags_in_common, self.score.flags, self.live.flags)

    def as_json(self) -> dict[str, Any]:
        """Counts and what follows from them."""
        shown = {f"{agents} agents": self.by_agents[agents] for agents in AGENTS} | {
            "live": self.live,
            IDEAL: self.ideal,
        }
        return {
            "scenario": self.scenario,
            "variant": self.variant,
            "detector": self.detector,
            "is_same_for_all": self.is_same_for_all,
            "live_agreement": self.live_agreement,
            **{
                name: asdict(one)
                | {"precision": one.precision, "recall": one.recall, "f1": one.f1, "f1_of_all": one.f1_of_all}
                for name, one in shown.items()
            },
        }


def measure(cases: Iterable[Case], pool: Executor) -> Iterator[Measured]:
    """Run all cases; one result for each scenario and variant of each detector, in the order of the cases."""
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    listed = list(cases)
    for case, one in zip(listed, pool.map(_measure_case, listed), strict=True):
        groups.setdefault((case.scenario, case.variant, case.config.detector), []).append(one)
    for group in groups.values():
        yield Measured(
            group[0].scenario,
            group[0].variant,
            group[0].detector,
            {agents: pooled(one.by_agents[agents] for one in group) for agents in AGENTS},
            all(one.is_same_for_all for one in group),
            pooled(one.live for one in group),
            sum(one.live_flags_in_common for one in group),
            pooled(one.ideal for one in group),
        )


def _measure_case(case: Case) -> Measured:
    run = case.make()
    config = msgspec.structs.replace(case.config, period_us=run.period_us, window_calls=0)
    undisturbed = flags_of(run, config, 1)
    troubled = partial(TroubledCluster, seed=TROUBLE_SEED)
    flags = {agents: flags_of(run, config, agents, troubled) for agents in AGENTS}
    live = flags_of(run, config, AGENTS[-1], partial(Cluster, live_seed=LIVE_SEED))
    return Measured(
        case.scenario,
        case.variant,
        config.detector,
        {agents: score(run, marks) for agents, marks in flags.items()},
        all(np.array_equal(undisturbed, marks) for marks in flags.values()),
        score(run, live),
        int(np.count_nonzero(undisturbed & live)),
        score(run, run.truth.runtime_us > run.truth.quantile_us),
    )


def table(title: str, results: Iterable[Measured]) -> ResultTable:
    """Precision, recall and F1 per scenario, detector and number of agents."""
    rows: list[tuple[str, ...]] = []
    shown_ideals = set()
    for result in results:
        if (result.scenario, result.variant) not in shown_ideals:
            shown_ideals.add((result.scenario, result.variant))
            rows.append(_row(result, "-", result.ideal, IDEAL))
        shown = {str(agents): result.by_agents[agents] for agents in SHOWN_AGENTS} | {"4 live": result.live}
        for agents, one in shown.items():
            rows.append(_row(result, agents, one, result.detector))
    columns = (
        "scenario",
        "delays",
        "detector",
        "agents",
        "precision",
        "recall",
        "F1",
        "clear found",
        "visible found",
        "all found",
        "early found",
        "F1 of all",
        "false/100k",
        "live F1",
    )
    return ResultTable(title, columns, rows)


def _row(result: Measured, agents: str, one: Score, detector: str) -> tuple[str, ...]:
    is_clean = result.variant == CLEAN
    return (
        result.scenario,
        result.variant,
        detector,
        agents,
        "-" if is_clean else number(one.precision),
        number(one.recall),
        number(one.f1) if one.visible else "-",
        f"{one.clear_found}/{one.clear}",
        f"{one.visible_found}/{one.visible}",
        f"{one.found}/{one.delays}",
        f"{one.early_found}/{one.early_delays}",
        "-" if is_clean else number(one.f1_of_all),
        number(one.false_per_100k, 2),
        number(result.live_agreement) if agents == "4 live" else "",
    )
