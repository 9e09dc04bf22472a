"""The judgement of real runs against the model of where the analysis runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.placing.judging import SPLITS, Model, Run, fitted, judge
from chimbuko.insitu.placing.usual import Slowdown, UnitCosts

TRUE = Model({1: (0.25, 1e-6), 2: (0.125, 5e-7)}, UnitCosts(0.03, 2e-3, 6e-7), Slowdown(1.2, 1.5, 0.3))


def made(split: str, rows: int, every: int) -> Run:
    """A run as the model says."""
    ranks = int(split[-1]) if split.startswith("alone") else SPLITS[split][0]
    run = Run(split, ranks, rows, every, 24, 0.0, 0.0)
    if split.startswith("alone"):
        return replace(run, step_s=TRUE.alone_s(run))
    step_s = TRUE.predict_s(run)
    cpu_s = 24 * TRUE.costs.cpu_s(step_s, ranks / every, rows)
    return replace(run, step_s=step_s, analysis_cpu_s=cpu_s)


FITTED_TO = [made(f"alone {ranks}", rows, 1) for ranks in (1, 2) for rows in (5_000, 240_000)]
FITTED_TO += [made(s, rows, every) for s in SPLITS for rows in (5_000, 240_000) for every in (1, 4)]
HELD_OUT = [made(s, rows, every) for s in SPLITS for rows in (5_000, 100_000, 240_000) for every in (1, 4)]


def test_runs_that_are_as_the_model_says_pass_and_only_with_the_analysis_in_it() -> None:
    model = fitted(FITTED_TO)
    for name in ("shared", "inside", "own"):
        assert getattr(model.slowdown, name) == pytest.approx(getattr(TRUE.slowdown, name), rel=0.1)
    for run in HELD_OUT:
        assert model.predict_s(run) == pytest.approx(run.step_s, rel=0.02)
    verdict = judge(model, HELD_OUT)
    assert verdict.failures == [] and verdict.runs == len(HELD_OUT)
    assert verdict.added_errors and verdict.most_apart > 0.2
    without = judge(model, HELD_OUT, has_analysis=False)
    assert any("added seconds" in failure for failure in without.failures)


def test_few_runs_that_others_slowed_down_do_not_change_the_model() -> None:
    disturbed = [
        replace(run, step_s=1.5 * run.step_s) if at % 7 == 0 else run
        for at, run in enumerate([*FITTED_TO, *FITTED_TO[:4]])
    ]
    assert {run.split for run in disturbed[::7]} == {"alone 1", "shared", "own"}
    assert judge(fitted(disturbed), HELD_OUT).failures == []


def test_other_runs_do_not_pass() -> None:
    slower = [replace(run, step_s=1.5 * run.step_s) for run in HELD_OUT]
    failures = judge(fitted(FITTED_TO), slower).failures
    assert any("greatest error" in failure for failure in failures)


def test_a_recommendation_that_is_not_the_best_is_seen() -> None:
    worse = [replace(run, step_s=0.3 * run.step_s) if run.split == "one core" else run for run in HELD_OUT]
    assert judge(fitted(FITTED_TO), worse).regret > 0.05
