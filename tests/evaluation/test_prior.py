"""Runs that begin with what earlier runs of their program have learned, the program changed or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import Model
from chimbuko.provenance.history.priors import packed_model, slower_than
from evaluation import prior, requirements
from evaluation.cluster import Cluster, Source
from evaluation.labelled import LabelledRun
from evaluation.timeline import RankTimeline, labelled_run

RANKS, STEPS = 4, 2000
USUAL_US = {"fine": 1_000.0, "coarse": 8_000.0, "rare": 60_000.0}
EVERY = {"fine": 1, "coarse": 10, "rare": 100}
MOST_FLAGGED = 32
"""Number of calls on four ranks before a function has eight calls, and the model with these is there."""


def made(seed: int, runtimes_us: dict[str, float]) -> LabelledRun:
    """A run of one program, without delays."""
    random = np.random.default_rng(seed)
    ranks = []
    for rank in range(RANKS):
        timeline, now_us = RankTimeline(0, rank, "app"), 0.0
        for step in range(STEPS):
            for name, runtime_us in runtimes_us.items():
                if step % EVERY[name] == 0:
                    timeline.enter(0, name, now_us)
                    now_us += runtime_us * random.lognormal(0.0, 0.1)
                    timeline.leave(0, name, now_us)
        ranks.append(timeline)
    return labelled_run(ranks)


def judged(run: LabelledRun, base: Model | None, live_seed: int | None = None) -> Cluster:
    config = msgspec.structs.replace(AnalysisConfig(), period_us=run.period_us)
    sources = [Source(one.program, one.rank, one.names, iter(one.steps)) for one in run.streams]
    return Cluster(sources, RANKS, config, live_seed, base)


@pytest.fixture(scope="module")
def usual() -> Model:
    """What an earlier version of the program left."""
    return prior.learned_of(judged(made(1, USUAL_US), None), AnalysisConfig())


@pytest.mark.parametrize(
    ("function", "factor", "live_seed"),
    [("fine", 3.0, None), ("fine", 1.5, 1), ("coarse", 3.0, 1), ("rare", 4.0, None), ("rare", 4.0, 1)],
)
def test_a_function_that_a_new_version_has_made_slower_is_one_finding_and_no_flood(
    usual: Model, function: str, factor: float, live_seed: int | None
) -> None:
    run = made(2, USUAL_US | {function: factor * USUAL_US[function]})
    flagged = Counter(call.function for call in judged(run, usual, live_seed).anomalies())
    assert sum(flagged.values()) <= MOST_FLAGGED
    assert set(flagged) <= {"rare"}
    own = prior.learned_of(judged(run, None), AnalysisConfig())
    (slower,) = slower_than(usual, packed_model(own))
    assert slower.function == function
    assert slower.factor == pytest.approx(factor, rel=0.1)


def test_the_same_version_is_as_before(usual: Model) -> None:
    run = made(3, USUAL_US)
    assert judged(run, usual).anomalies() == []
    own = prior.learned_of(judged(run, None), AnalysisConfig())
    assert slower_than(usual, packed_model(own)) == []


def test_the_first_minute_of_a_recorded_trace_has_fewer_false_flags_and_its_clear_delays(
    real_traces: Path,
) -> None:
    results = list(prior.measure([real_traces / "heat4"], AnalysisConfig()))
    assert [one.what for one in requirements.prior(results) if not one.is_held] == []
    assert sum(one.with_prior.others < one.without.others for one in results) == len(results)
