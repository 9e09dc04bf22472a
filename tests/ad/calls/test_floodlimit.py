"""Which of very many abnormal calls are recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.calls.selection import BURST_PERIODS, FloodLimit, Selection
from chimbuko.ad.kernels.stack import CALL
from chimbuko.core.arrays import Table, as_table
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
    ),
    max_size=8,
)


@settings(deadline=None)
@given(steps)
def test_like_a_slow_one(steps: list[tuple[list[Call], int, int]]) -> None:
    limit, slow, now_us = FloodLimit(CONFIG), SlowLimit(MOST / 1000, BURST), 0
    for calls, passed_us, carried in steps:
        now_us += passed_us
        left = kept(limit, calls, now_us, carried)
        assert left.left_out.tolist() == slow.left_out(calls, now_us, carried)
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
