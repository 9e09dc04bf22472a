"""The recommended placement is the best of all, and moves as it should."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.plan.prediction import AS_GOOD, advise, placements, predict
from chimbuko.plan.workflow import Placement, Task, Workflow, parse_placement
from tests.plan.test_prediction import NEK5000, phases

SIZES = [cores * 24 for cores in (2, 4, 12, 18, 36)]


def test_use_case_b_is_advised_as_published() -> None:
    best = advise(NEK5000, SIZES).best
    assert str(best.placement) == "compressed=2x48 original=48"
    assert best.step_s == pytest.approx(1.7179, abs=5e-5)
    assert best.bound_by == "application"


def with_task(execution: str, every: int) -> Workflow:
    return Workflow(2000, phases("100 / ranks"), (Task("task", phases(execution), every),), "ranks", 64)


@pytest.mark.parametrize(
    ("execution", "every", "approach"),
    [
        ("0.0001", 1, "synchronous"),
        ("10 / ranks", 10, "synchronous"),
        ("4", 4, "asynchronous"),
        ("40", 20, "asynchronous"),
    ],
)
def test_cheap_tasks_stay_inside_and_costly_ones_that_scale_badly_go_beside(
    execution: str, every: int, approach: str
) -> None:
    assert advise(with_task(execution, every)).best.approach == approach


def test_a_task_that_hardly_runs_costs_the_same_anywhere() -> None:
    ranked = advise(with_task("2", 2000)).ranked
    inside = next(one for one in ranked if not one.placement.groups)
    assert inside.total_s == pytest.approx(
        predict(with_task("2", 2000), Placement()).bare_step_s * 2000, rel=0.01
    )


def test_of_equally_good_placements_the_one_with_fewest_resources_is_advised() -> None:
    found = advise(with_task("4 + 0.01 / ranks", 8), (4, 8, 16))
    fastest = min(found.ranked, key=lambda one: one.total_s)
    assert found.best.placement.taken == 4
    assert found.best.total_s <= found.least_s * (1 + AS_GOOD) and found.least_s == fastest.total_s


def test_no_side_is_more_than_efficient() -> None:
    # Twice the resources, a quarter of the time: caches do that.
    best = predict(with_task("10 * ranks^-2", 10), Placement())
    assert best.application.efficiency == 1.0


def test_of_equally_good_placements_an_efficient_one_is_advised() -> None:
    found = advise(with_task("30 / ranks", 8), (2, 4, 8, 16))
    assert not found.best.inefficient
    badly = advise(with_task("39 + 0.1 / ranks", 8), (16,))
    assert badly.best.inefficient == (str(badly.best.placement),)
    assert all(one.total_s > badly.least_s * (1 + AS_GOOD) for one in badly.ranked if not one.inefficient)


@settings(max_examples=30, deadline=None)
@given(
    st.floats(1.0, 500.0), st.floats(0.01, 5.0), st.floats(0.0, 50.0), st.integers(1, 10), st.integers(2, 70)
)
def test_nothing_that_can_be_placed_is_better(
    work_s: float, fixed_s: float, spread_s: float, every: int, total: int
) -> None:
    task = Task("task", phases(f"{fixed_s!r} + {spread_s!r} / ranks"), every)
    workflow = Workflow(300, phases(f"{work_s!r} / ranks"), (task,), "ranks", total)
    best = advise(workflow).best
    others = [predict(workflow, placement).total_s for placement in placements(workflow)]
    assert best.total_s <= min(others) * (1 + AS_GOOD)
    bare_s = 300 * best.bare_step_s
    assert bare_s * (1 - 1e-9) <= best.total_s


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 3), st.integers(2, 40))
def test_placements_have_room_and_no_two_are_alike(tasks: int, total: int) -> None:
    workflow = Workflow(
        10, phases("1"), tuple(Task(f"t{at}", phases("1"), 1) for at in range(tasks)), "ranks", total
    )
    found = placements(workflow, [1, 5])
    assert len(set(map(str, found))) == len(found)
    assert found[0] == Placement()
    for placement in found:
        assert placement.taken < total
        assert set(map(str, parse_placement(str(placement), workflow).groups)) == set(
            map(str, placement.groups)
        )


def test_more_placements_than_can_be_tried_are_refused() -> None:
    tasks = tuple(Task(f"t{at}", phases("1"), 1) for at in range(5))
    with pytest.raises(ConfigError, match="too many placements; give fewer sizes"):
        advise(Workflow(10, phases("1"), tasks, "ranks", 100_000))
