"""Models come back out of points that follow them, and out of noisy ones as good predictions."""

from __future__ import annotations

import json
import math
import os
import subprocess
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.plan.fitting import REPLICATES, fit, measured, points_needed, sampling_plan
from chimbuko.plan.hypotheses import agreement
from chimbuko.plan.normalform import Factor, NormalForm, Term
from tests.places import ROOT
from tests.plan.published import (
    ALL,
    LOSSY,
    ONE_PARAMETER,
    QE_ON_CORES,
    QE_ON_GPUS,
    Published,
    between,
    sampled,
)


def name_of(published: Published) -> str:
    return published.name


@pytest.mark.parametrize("published", ALL, ids=name_of)
def test_published_models_come_back_from_the_plan_of_few_points(published: Published) -> None:
    plan = sampling_plan(published.values)
    assert len(plan) == points_needed(len(published.values))
    found = fit(sampled(published, plan)).model.form

    def terms(form: NormalForm) -> dict[tuple[Factor, ...], float]:
        return {term.factors: term.coefficient for term in form.terms}

    assert terms(found) == pytest.approx(terms(published.form), rel=1e-6)


@pytest.mark.parametrize("published", [*ONE_PARAMETER, QE_ON_CORES], ids=name_of)
def test_with_noise_of_two_per_cent_predictions_are_within_five(published: Published) -> None:
    """Five repetitions of each point; the form may be another one."""
    plan = sampling_plan(published.values)
    for seed in range(4):
        found = fit(sampled(published, plan, 0.02, 5, seed))
        points = between(published, 50, seed)
        predicted = np.broadcast_to(found.model.form.values(points), 50)
        assert agreement(published.form.values(points), predicted).max_relative_error < 0.05


@pytest.mark.parametrize(
    "published", [LOSSY, pytest.param(QE_ON_GPUS, marks=pytest.mark.thorough)], ids=name_of
)
def test_effects_that_are_small_where_few_points_are_need_all_of_them(published: Published) -> None:
    names = list(published.values)
    grid = [dict(zip(names, chosen, strict=True)) for chosen in product(*published.values.values())]
    found = fit(sampled(published, grid, 0.02, 5))
    points = between(published, 50, 1)
    predicted = np.broadcast_to(found.model.form.values(points), 50)
    assert agreement(published.form.values(points), predicted).max_relative_error < 0.05


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 1.0]),
    st.floats(0.01, 100.0),
    st.floats(0.1, 10.0),
    st.floats(1e-6, 1e6),
)
def test_a_form_comes_back_whatever_its_size(
    power: float, log_power: float, share: float, ratio: float, unit: float
) -> None:
    values = (2.0, 3.0, 5.0, 9.0, 17.0 * ratio + 9.0)
    factor = Factor("n", power, log_power)
    size = float(factor.values(np.array(values)).max())
    form = NormalForm((Term(unit), Term(unit * share / size, (factor,))))
    found = fit(measured("part", [({"n": n}, float(form.values({"n": n}))) for n in values]))
    points = {"n": np.geomspace(2.0, values[-1], 20)}
    assert np.broadcast_to(found.model.form.values(points), 20) == pytest.approx(
        form.values(points), rel=5e-3
    )


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(15)), st.floats(1e-3, 1e3))
def test_neither_order_nor_unit_of_measurements_matters(order: list[int], unit: float) -> None:
    draw = np.random.default_rng(3)
    rows = [
        ({"n": float(n)}, 3.0 + 40.0 / n * draw.uniform(0.98, 1.02))
        for n in (2, 4, 8, 16, 32)
        for _ in range(3)
    ]
    one = fit(measured("part", rows)).model.form
    other = fit(measured("part", [(rows[at][0], rows[at][1] * unit) for at in order])).model.form
    points = {"n": np.array([3.0, 20.0])}
    assert other.values(points) / unit == pytest.approx(one.values(points), rel=1e-6)


def test_a_time_that_depends_on_nothing_is_a_constant() -> None:
    found = fit(measured("part", [({"n": float(n)}, 2.5) for n in range(1, 6)]))
    assert found.model.form == NormalForm((Term(2.5),))
    assert found.idle_parameters == ("n",)
    assert found.agreement.r_squared is None


@pytest.mark.parametrize("repetitions", [1, 5])
def test_replicates_spread_as_far_as_the_noise(repetitions: int) -> None:
    """What is true lies in most intervals: five points leave no room for all of them."""
    published = ONE_PARAMETER[3]
    inside = []
    for seed in range(10):
        model = fit(sampled(published, sampling_plan(published.values), 0.02, repetitions, seed)).model
        assert len(model.replicates) == REPLICATES
        points = between(published, 10, seed)
        times_s = [np.broadcast_to(one.values(points), 10) for one in model.replicates]
        low, high = np.quantile(times_s, [0.025, 0.975], axis=0)
        truth = published.form.values(points)
        inside.append(((low <= truth) & (truth <= high)).mean())
        assert (high / low - 1.0).max() < 0.3
    assert np.mean(inside) > 0.7


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "nothing was measured"),
        ([({"n": 1.0}, 1.0)] * 4, "n is 1 at all points"),
        (
            [({"n": float(n)}, 1.0 / n) for n in range(1, 5)],
            "4 different points; a model of 1 parameter needs 5",
        ),
        ([({"n": float(n), "m": 3.0}, 1.0) for n in range(1, 12)], "m is 3 at all points"),
        (
            [({"n": float(n), "m": float(n)}, 1.0) for n in range(1, 12)],
            "n has 1 different values while all other",
        ),
        ([({"n": float(n)}, -1.0) for n in range(1, 6)], "time is -1"),
        ([({"n": float(n)}, math.nan) for n in range(1, 6)], "time is nan"),
        ([({"n": 0.0}, 1.0)], "n is 0"),
        ([({"n": 1.0}, 1.5), ({"n": 1.0}, 1500.0)], "are their units mixed"),
        ([({}, 1.0)] * 5, "0 parameters; a model has 1 to 3"),
    ],
)
def test_what_no_model_follows_from_is_refused_in_one_line(
    rows: list[tuple[dict[str, float], float]], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        fit(measured("part", rows))
    assert "\n" not in str(refused.value)


VALUES = st.lists(st.integers(1, 10_000).map(float), min_size=5, max_size=12, unique=True)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_a_plan_has_6h_minus_1_points_and_five_of_each_parameter(given_values: list[list[float]]) -> None:
    values = {f"p{at}": one for at, one in enumerate(given_values)}
    plan = sampling_plan(values)
    assert len({tuple(point.values()) for point in plan}) == len(plan) == points_needed(len(values))
    cheapest = {name: min(one) for name, one in values.items()}
    for name, one in values.items():
        line = {
            point[name]
            for point in plan
            if all(point[other] == cheapest[other] for other in values if other != name)
        }
        assert len(line) == 5
        assert {min(one), max(one)} <= line <= set(one)


def test_there_are_5_11_and_17() -> None:
    assert [points_needed(parameters) for parameters in (1, 2, 3)] == [5, 11, 17]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 4.0, 8.0],
        [1.0, 1.0, 1.0, 1.0, 2.0],
        [0.0, 1.0, 2.0, 3.0, 4.0],
        [1.0, 2.0, 3.0, float("nan"), 4.0],
        [1.0, 2.0, 3.0, 4.0, float("inf")],
    ],
)
def test_too_few_values_and_those_that_are_not_positive_are_refused(values: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"needs 5 of each|are positive"):
        sampling_plan({"ranks": values})


PYTHON = os.environ.get("CHIMBUKO_EXTRAP_PYTHON")
"""Interpreter of a virtual environment with ``extrap``, which needs numpy before 2 and Qt."""
CASES = (*ONE_PARAMETER, QE_ON_CORES)
SEEDS = range(5)


@pytest.mark.thorough
@pytest.mark.skipif(PYTHON is None, reason="CHIMBUKO_EXTRAP_PYTHON names no interpreter that has extrap")
@pytest.mark.parametrize(("noise", "most"), [(0.0, 1e-6), (0.02, 0.05)])
def test_predictions_are_at_least_as_good_as_those_of_extra_p(noise: float, most: float) -> None:
    cases, ours, truths = [], [], []
    for published in CASES:
        for seed in SEEDS:
            points = sampled(published, sampling_plan(published.values), noise, 5, seed)
            at = between(published, 30, seed)
            truths.append(published.form.values(at))
            ours.append(np.broadcast_to(fit(points).model.form.values(at), 30))
            cases.append(
                {
                    "points": points.points.tolist(),
                    "times_s": [times.tolist() for times in points.repetitions],
                    "at": np.stack([at[name] for name in points.parameters], axis=1).tolist(),
                }
            )
    done = subprocess.run(
        [str(PYTHON), str(ROOT / "tests" / "insitu" / "extrapmodels.py")],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    theirs = np.array(json.loads(done.stdout))
    errors, errors_of_theirs = (abs(np.array(one) / np.array(truths) - 1.0) for one in (ours, theirs))
    print(
        f"worst error {errors.max():.4f} beside {errors_of_theirs.max():.4f}, "
        f"mean {errors.mean():.5f} beside {errors_of_theirs.mean():.5f}"
    )
    assert errors.max() < most
    assert errors.mean() <= errors_of_theirs.mean() + 1e-6
