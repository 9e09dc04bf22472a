"""Rankings of ranks and functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.statistics.moments import Moments
from chimbuko.runtime.protocol.messages import FunctionStatistics, RankStatistics
from chimbuko.viz.live.totals import LEAST_RANKED, STATISTICS, LiveTotals, Statistic
from tests.viz.made_run import FUNCTIONS, STEPS, MadeRun


def rank_row(rank: int, value: int) -> RankStatistics:
    """A rank all of whose statistics are about ``value``."""
    return RankStatistics(0, rank, value, *[value] * 7, 1.0 * value, 9)  # type: ignore[call-arg]


@given(
    values=st.lists(st.integers(0, 5), max_size=12),
    statistic=st.sampled_from(STATISTICS),
    n=st.integers(1, 15),
)
def test_top_and_bottom_are_the_ends_of_one_order(values: list[int], statistic: Statistic, n: int) -> None:
    tally = LiveTotals()
    tally.add_totals([rank_row(rank, value) for rank, value in enumerate(values)], [], [])
    falling = sorted(range(len(values)), key=lambda rank: (-values[rank], rank))
    rising = sorted(range(len(values)), key=lambda rank: (values[rank], rank))
    for wanted in n, LEAST_RANKED + n, 1:
        ranking = tally.now().ranking(statistic, wanted)
        assert [row.rank for row in ranking.top] == falling[:wanted]
        assert [row.rank for row in ranking.bottom] == rising[:wanted]
        assert (ranking.n, ranking.ranks) == (wanted, len(values))


def test_a_ranking_is_that_of_now() -> None:
    tally = LiveTotals()
    tally.add_totals([rank_row(0, 3), rank_row(1, 4)], [], [])
    assert [row.rank for row in tally.now().ranking("total", 1).top] == [1]
    tally.add_totals([rank_row(0, 5)], [], [])
    assert [row.rank for row in tally.now().ranking("total", 1).top] == [0]


@pytest.mark.parametrize("rows", [[], [rank_row(3, 1)]])
def test_few_ranks_are_ranked_too(rows: list[RankStatistics]) -> None:
    tally = LiveTotals()
    tally.add_totals(rows, [], [])
    ranking = tally.now().ranking("mean", 5)
    assert ranking.top == ranking.bottom == rows


def test_functions_come_by_time_lost(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_totals([], finished.function_statistics(), [])
    lost = [row.severity_us for row in tally.now().worst_functions()]
    assert lost == sorted(lost, reverse=True)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_functions_are_ranked_by_their_abnormal_calls_per_step(
    finished: MadeRun, statistic: Statistic
) -> None:
    tally = LiveTotals()
    for step in range(STEPS):
        tally.add_frame(finished.frame(step + 1, step))
    twins = {
        name: Moments.of(
            [
                sum(
                    (record.function, record.rank, record.step) == (name, step.rank, step.step)
                    for record in finished.anomalies
                )
                for step in finished.steps
            ]
        )
        for name in FUNCTIONS
    }
    ranking = tally.now().function_ranking(statistic, 2)
    if statistic == "severity_us":
        values = {row.name: row.severity_us for row in finished.function_statistics()}
    else:
        attribute = "n" if statistic == "steps" else statistic
        values = {name: getattr(twin, attribute) for name, twin in twins.items()}
    assert ranking.functions == len(FUNCTIONS)
    for rows, largest in ((ranking.top, True), (ranking.bottom, False)):
        expected = sorted(values.values(), reverse=largest)[:2]
        assert [getattr(row, statistic) for row in rows] == pytest.approx(expected)
        for row in rows:
            assert getattr(row, statistic) == pytest.approx(values[row.name])


def test_functions_of_which_steps_are_not_known_are_ranked_by_what_is_known() -> None:
    tally = LiveTotals()
    unknown = FunctionStatistics(0, "f", 9, 4, 1.0, *[0.0] * 6)
    tally.add_totals([rank_row(0, 8)], [unknown], [])
    assert [(row.name, row.mean, row.stddev) for row in tally.now().function_ranking("mean", 5).top] == [
        ("f", 0.5, None)
    ]
    assert tally.now().function_ranking("stddev", 5).functions == 0
