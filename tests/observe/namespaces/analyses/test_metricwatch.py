"""A quantity whose ranks publish in their own time: what is found does not depend on how they interleave."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from chimbuko.observe.namespaces.analyses.metricanomalies import KEPT_TIMES, MOST_WAITING, Quantity
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.observe.namespaces.analyses.metricwatch import LIMIT, Cusum, MetricWatch, Role, scale
from tests.observe.namespaces.analyses.astaroth import (
    CULPRIT,
    DEPARTS_BEFORE,
    RANKS,
    STEPS,
    Series,
    global_drift,
    healthy,
    local_instability,
)

Sample = tuple[int, int, float]
"""Rank, step and value."""


def taken(quantity: Quantity, samples: list[Sample]) -> list[Finding]:
    """A step is published 10 ms after the last one."""
    return [
        found for rank, step, value in samples for found in quantity.take(rank, step, 10_000 * step, value)
    ]


def steps_of(ranks: range, steps: range, value: float = 1.0) -> list[Sample]:
    return [(rank, step, value) for step in steps for rank in ranks]


@pytest.mark.parametrize("ahead", [0, 50])
def test_one_rank_may_be_ahead_of_the_others(ahead: int) -> None:
    series = local_instability(1)
    samples = [
        (rank, int(step), float(series.density_min[at, rank]))
        for at, step in enumerate(series.steps)
        for rank in range(RANKS)
    ]
    # Rank 3 has published so many samples more than the others, at any time.
    samples.sort(key=lambda one: one[1] - (5 * ahead if one[0] == 3 else 0))
    quantity = Quantity("density/min", Role.COMPARED)
    found = taken(quantity, samples) + list(quantity.finish())
    assert [(one.kind, one.ranks) for one in found] == [(Problem.DEPARTURE, (CULPRIT,))]
    assert found[0].begin_us == 10_000 * found[0].since < found[0].found_us == 10_000 * found[0].step


def test_a_step_is_judged_when_all_ranks_have_passed_it() -> None:
    quantity = Quantity("a", Role.NONE)
    assert taken(quantity, [(0, 0, 1.0), (1, 0, np.nan)]) == []
    (found,) = taken(quantity, [(0, 1, 1.0)])
    assert (found.kind, found.ranks, found.step) == (Problem.NOT_A_NUMBER, (1,), 0)


def test_what_waits_is_judged_at_the_end_also_where_ranks_are_missing() -> None:
    quantity = Quantity("a", Role.CONSERVED)
    assert taken(quantity, [*steps_of(range(4, 6), range(3)), (4, 3, np.inf)]) == []
    assert [(one.ranks, one.step) for one in quantity.finish()] == [((4,), 3)]


def test_a_rank_that_stays_away_holds_up_the_others_for_a_while_only() -> None:
    quantity = Quantity("a", Role.CONSERVED)
    assert taken(quantity, steps_of(range(3), range(10))) == []
    alone = taken(quantity, [*steps_of(range(2), range(10, 10 + MOST_WAITING)), (0, 200, np.nan)])
    assert alone == []
    assert [one.ranks for one in taken(quantity, steps_of(range(2), range(201, 204)))] == [(0,)]
    # It is there again, and what it says counts.
    assert [
        one.ranks for one in taken(quantity, [(2, 204, np.nan), *steps_of(range(3), range(205, 208))])
    ] == [(2,)]


def test_what_is_no_number_is_found_however_late_it_comes() -> None:
    quantity = Quantity("a", Role.NONE)
    assert taken(quantity, [(0, step, 1.0) for step in range(5)]) == []
    assert [(one.ranks, one.step) for one in taken(quantity, [(1, 0, 1.0), (1, 1, np.nan)])] == [((1,), 1)]


def test_the_same_thing_is_found_once_whoever_joins() -> None:
    quantity = Quantity("a", Role.NONE)
    first = taken(quantity, steps_of(range(2), range(3), np.nan))
    assert [one.ranks for one in first] == [(0, 1)]
    later = taken(quantity, [(2, 3, 1.0), *steps_of(range(2), range(3, 6), np.nan), (2, 6, 1.0)])
    assert later == []


def test_a_program_that_begins_again_is_learned_anew() -> None:
    quantity = Quantity("a", Role.NONE)
    taken(quantity, steps_of(range(2), range(50)))
    quantity.restart()
    assert [
        one.step
        for one in taken(quantity, [*steps_of(range(2), range(3)), (0, 3, np.nan), (1, 3, 1.0), (0, 4, 1)])
    ] == [3]


def test_what_is_kept_does_not_grow_with_the_run() -> None:
    quantity = Quantity("a", Role.NONE)
    for step in range(3 * KEPT_TIMES):
        list(quantity.take(0, step, step, 1.0))
    assert len(quantity._times_us) == len(quantity._steps) == KEPT_TIMES
    assert len(quantity._waiting) == 1


ROLES = {"local_mass": Role.CONSERVED, "density/min": Role.COMPARED}


def found_in(series: Series) -> list[Finding]:
    watch = MetricWatch(ROLES, RANKS)
    return [
        finding
        for step, mass, density in zip(series.steps, series.mass, series.density_min, strict=True)
        for finding in watch.take(int(step), {"local_mass": mass, "density/min": density})
    ]


def is_global(found: list[Finding]) -> bool:
    return [(one.kind, one.ranks) for one in found] == [(Problem.GLOBAL_DRIFT, ())]


def names_the_culprit_in_time(found: list[Finding]) -> bool:
    """First of all, and long before the crash; nobody else is named."""
    return (
        bool(found)
        and found[0].kind is Problem.DEPARTURE
        and all(one.ranks == (CULPRIT,) for one in found)
        and found[0].step <= STEPS - 1_000
        and found[0].since >= STEPS - DEPARTS_BEFORE - 100
    )


def count(make: Callable[[int], Series], is_right: Callable[[list[Finding]], bool], seeds: range) -> int:
    return sum(is_right(found_in(make(seed))) for seed in seeds)


def is_silent(found: list[Finding]) -> bool:
    return not found


def test_a_few_of_each_case_are_found() -> None:
    assert count(healthy, is_silent, range(2)) == 2
    assert count(global_drift, is_global, range(1)) == 1
    assert count(local_instability, names_the_culprit_in_time, range(1)) == 1


@pytest.mark.thorough
def test_all_cases_are_found_as_often_as_is_asked() -> None:
    assert count(healthy, is_silent, range(100, 200)) >= 95
    assert count(global_drift, is_global, range(100, 120)) == 20
    assert count(local_instability, names_the_culprit_in_time, range(100, 120)) >= 19


def test_a_drift_because_of_few_ranks_names_them() -> None:
    series = healthy(1)
    mass = series.mass.copy()
    mass[300:, [3, 7]] *= 1.0 - 1e-4 * np.arange(300)[:, None]
    (found,) = found_in(Series(series.steps, mass, series.density_min))
    assert (found.kind, found.ranks) == (Problem.LOCAL_DRIFT, (3, 7))
    assert 1_500 <= found.since <= found.step < 1_800 and found.change < 0


def test_what_is_no_number_is_reported_once_for_each_rank() -> None:
    series = healthy(2)
    density = series.density_min.copy()
    density[200:, 5] = np.nan
    density[300:, 6] = np.inf
    found = found_in(Series(series.steps, series.mass, density))
    assert [(one.kind, one.ranks, one.step) for one in found] == [
        (Problem.NOT_A_NUMBER, (5,), 1_000),
        (Problem.NOT_A_NUMBER, (6,), 1_500),
    ]


def test_one_outlier_is_no_departure() -> None:
    series = healthy(3)
    density = series.density_min.copy()
    density[200, 5] = -50.0
    assert found_in(Series(series.steps, series.mass, density)) == []


def test_values_around_zero_are_compared_by_their_differences() -> None:
    chance = np.random.default_rng(1)
    values = chance.normal(0.0, 1.0, (300, 8))
    values[150:, 2] += 4.0
    watch = MetricWatch({"velocity": Role.COMPARED}, 8)
    found = [one for step, row in enumerate(values) for one in watch.take(step, {"velocity": row})]
    assert [one.ranks for one in found] == [(2,)] and 150 <= found[0].step < 165


@pytest.mark.parametrize("ranks", [1, 3])
def test_few_ranks_are_not_compared(ranks: int) -> None:
    watch = MetricWatch({"a": Role.COMPARED, "b": Role.NONE}, ranks)
    values = np.ones(ranks)
    for step in range(100):
        values = values * (1.0 + step * np.arange(ranks))
        assert list(watch.take(step, {"a": values % 1e9, "b": values % 1e9})) == []


def test_constant_values_have_no_scale_and_are_silent() -> None:
    watch = MetricWatch(ROLES, RANKS)
    for step in range(200):
        values = {name: np.full(RANKS, 0.1) for name in ROLES}
        assert list(watch.take(step, values)) == []


def test_sums_grow_with_what_stays_away_and_say_since_when() -> None:
    cusum = Cusum(2)
    for step in range(10):
        assert not cusum.add(step, np.zeros(2)).any()
    steps = 0
    while not (beyond := cusum.add(10 + steps, np.array([3.0, 0.9]))).any():
        steps += 1
    # Each sample adds 3 - 1.5.
    assert steps == LIMIT // 1.5 and beyond.tolist() == [True, False]
    assert cusum.since(0) == 10


def test_the_scale_of_noise_knows_no_trend() -> None:
    chance = np.random.default_rng(5)
    samples = chance.normal(0.0, 2.0, (4_000, 1)) + 0.05 * np.arange(4_000)[:, None]
    assert scale(samples)[0] == pytest.approx(2.0, rel=0.1)


def test_findings_are_sentences() -> None:
    sentences = [
        Finding(kind, "mass", ranks, 1500, 2000, -0.0123).sentence
        for kind, ranks in (
            (Problem.GLOBAL_DRIFT, ()),
            (Problem.LOCAL_DRIFT, (3,)),
            (Problem.DEPARTURE, (14,)),
            (Problem.NOT_A_NUMBER, (1, 2)),
        )
    ]
    assert sentences == [
        "mass is not conserved, alike on all ranks: the sum has changed by −1.23 %, since about step 1,500.",
        "mass is not conserved because of rank 3: the sum has changed by −1.23 %, since about step 1,500.",
        "mass departs from the other ranks on rank 14: by 0.0 standard deviations, since about step 1,500.",
        "mass is not a number on rank 1, 2, at step 2,000.",
    ]
