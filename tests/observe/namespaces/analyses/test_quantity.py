"""A quantity whose ranks publish in their own time: what is found does not depend on how they interleave."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.observe.namespaces.analyses.metricanomalies import KEPT_TIMES, MOST_WAITING, Quantity
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.observe.namespaces.analyses.metricwatch import Role
from tests.observe.namespaces.analyses.astaroth import CULPRIT, RANKS, local_instability

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
