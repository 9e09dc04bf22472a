"""Which of very many abnormal calls are recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.calls.selection import BURST_PERIODS, SAVED_S, AgentBudget, FloodLimit, Selection
from chimbuko.ad.kernels.stack import CALL
from chimbuko.core.arrays import Int64Array, Table, as_table
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.config import AnalysisConfig
from tests.reference.floodlimit import Call, SlowLimit

MOST = 3
CONFIG = AnalysisConfig(max_anomalies_per_function=MOST, period_us=1000)
BURST = BURST_PERIODS * MOST


def selection(calls: list[Call]) -> Selection:
    severities_us = np.array([severity for _, severity, _ in calls], np.float64)
    return Selection(
        np.arange(len(calls), dtype=np.int32),
        np.array([is_anomaly for *_, is_anomaly in calls], np.bool_),
        *[severities_us] * 5,
    )


def table_of(calls: list[Call]) -> Table:
    rows = as_table(np.zeros(len(calls), CALL))
    rows["function"] = [function for function, *_ in calls]
    return rows


def kept(limit: FloodLimit, calls: list[Call], now_us: int = 0, carried: int = 0) -> Selection:
    return limit.keep(selection(calls), table_of(calls), carried, 7, now_us)


steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.booleans()), max_size=80),
        st.sampled_from([0, 500, 1000, 7000]),
        st.integers(0, 5),
        st.integers(0, 10),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(steps)
def test_like_a_slow_one(steps: list[tuple[list[Call], int, int, int]]) -> None:
    limit, slow, now_us = FloodLimit(CONFIG), SlowLimit(MOST / 1000, BURST), 0
    for calls, passed_us, carried, least_us in steps:
        now_us += passed_us
        limit.least_us = least_us
        left = kept(limit, calls, now_us, carried)
        assert left.left_out.tolist() == slow.left_out(calls, now_us, carried, least_us)
        assert sorted([*left.rows.tolist(), *left.left_out.tolist()]) == list(range(len(calls)))
        assert left.severity_us.tolist() == [calls[row][1] for row in left.rows]


def test_few_are_all_recorded() -> None:
    calls = [(row % 4, 5, True) for row in range(4 * BURST)]
    chosen = selection(calls)
    limit = FloodLimit(CONFIG)
    assert limit.keep(chosen, table_of(calls), 0, 7, 0) is chosen


def test_of_too_many_in_a_step_the_most_severe_are_recorded() -> None:
    left = kept(FloodLimit(CONFIG), [(0, severity, True) for severity in range(1, 1001)])
    assert left.rows.tolist() == list(range(1000 - BURST, 1000))
    assert len(left.left_out) == 1000 - BURST
    assert len(left.flagged) == 1000


def test_a_flood_has_so_many_records_per_period_and_one_more_severe_than_all_before() -> None:
    limit = FloodLimit(CONFIG)
    kept(limit, [(0, 5, True)] * 1000)
    for period in range(1, 10):
        assert len(kept(limit, [(0, 5, True)] * 1000, 1000 * period).rows) == MOST
    assert kept(limit, [(0, 5, True), (0, 6, True), (0, 7, True)], 9000).severity_us.tolist() == [7]


def test_normal_calls_and_those_that_were_open_across_steps_are_always_recorded() -> None:
    limit = FloodLimit(CONFIG)
    kept(limit, [(0, 5, True)] * 1000)
    left = kept(limit, [(0, 5, True), (0, 5, True), (0, 0, False), (0, 5, True)], carried=2)
    assert left.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize("cuts", [[], [300], [100, 200, 300, 400]])
def test_what_is_recorded_of_one_function_does_not_depend_on_the_others(cuts: list[int]) -> None:
    calls = [(row % 7, row % 11 + 1, True) for row in range(500)]
    alone, together = FloodLimit(CONFIG), FloodLimit(CONFIG)
    for begin, end in zip([0, *cuts], [*cuts, 500], strict=True):
        left = kept(together, calls[begin:end], begin)
        mine = kept(alone, [call for call in calls[begin:end] if call[0] == 3], begin)
        of_three = [calls[begin + row][1] for row in left.rows if calls[begin + row][0] == 3]
        assert of_three == mine.severity_us.tolist()


def counted(severities_us: list[int]) -> Int64Array:
    return np.bincount(np.searchsorted(EDGES_US, severities_us, "right") - 1, minlength=BUCKETS)


severities = st.lists(st.integers(1, 10_000), max_size=60)
SEVERE_US = 4096


@given(st.lists(severities, max_size=8))
def test_a_function_offers_what_it_records_without_a_budget(steps: list[list[int]]) -> None:
    limited, free = FloodLimit(CONFIG), FloodLimit(CONFIG)
    limited.least_us = SEVERE_US
    recorded: list[int] = []
    for now_us, severities_us in enumerate(steps):
        calls = [(0, severity, True) for severity in severities_us]
        recorded += [int(one) for one in kept(free, calls, now_us).severity_us]
        kept(limited, calls, now_us)
    assert limited.offered.tolist() == free.offered.tolist() == counted(recorded).tolist()


periods = st.lists(st.tuples(severities, st.sampled_from([1.0, 1.5, 2.0])), max_size=30)


@given(periods, st.floats(0.1, 100.0))
def test_nothing_is_left_out_below_the_budget(found: list[tuple[list[int], float]], per_s: float) -> None:
    budget = AgentBudget()
    for severities_us, passed_s in found:
        within = severities_us[: int(passed_s * per_s)]
        assert budget.least_us(counted(within), passed_s, per_s) == 0.0


@given(periods, st.floats(0.1, 100.0))
def test_no_more_than_the_budget_is_recorded_but_what_nobody_could_expect(
    found: list[tuple[list[int], float]], per_s: float
) -> None:
    budget, least_us, recorded, surprises = AgentBudget(), 0.0, 0, 0
    before = counted([])
    for severities_us, _ in found:
        offered = counted(severities_us)
        recorded += sum(severity >= least_us for severity in severities_us)
        # A period is taken to be like the last one.
        surprises += int(np.maximum(offered - before, 0).sum())
        least_us, before = budget.least_us(offered, 1.0, per_s), offered
    assert recorded <= per_s * (len(found) + 2 * SAVED_S) + surprises + 1e-6


def test_a_steady_flood_is_recorded_as_the_budget_has_it_and_the_costliest_of_it() -> None:
    generator, budget = np.random.default_rng(5), AgentBudget()
    least_us, recorded, left_out = 0.0, list[int](), list[int]()
    for _ in range(200):
        severities_us = generator.integers(1_000, 1_000_000, 500).tolist()
        recorded += [one for one in severities_us if one >= least_us]
        left_out += [one for one in severities_us if one < least_us]
        least_us = budget.least_us(counted(severities_us), 1.0, 50.0)
    assert 0.9 * 200 * 50 < len(recorded) < 1.2 * 200 * 50
    costliest = sorted(recorded + left_out)[-len(recorded) :]
    assert sum(recorded) > 0.9 * sum(costliest)


def test_of_a_flood_of_calls_that_are_all_alike_the_budget_is_recorded() -> None:
    budget, least_us, recorded = AgentBudget(), 0.0, 0
    for _ in range(100):
        recorded += 500 if least_us <= 5_000 else 0
        least_us = budget.least_us(counted([5_000] * 500), 1.0, 50.0)
    assert recorded == pytest.approx(100 * 50, abs=2 * 500)


def test_without_a_limit_all_is_recorded_again() -> None:
    budget, flood = AgentBudget(), counted([2_000] * 900 + [9_000] * 5)
    assert budget.least_us(flood, 1.0, 10.0) > 2_000
    assert budget.least_us(flood, 1.0, None) == 0.0
