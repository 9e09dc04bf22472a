"""Running totals of a run."""

from __future__ import annotations

import random
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.record import StepCount
from chimbuko.core.statistics.moments import Moments
from chimbuko.runtime.protocol.messages import FunctionStatistics, RankStatistics
from chimbuko.viz.live.livetotals import (
    LEAST_RANKED,
    RECENT_STEPS,
    STATISTICS,
    LiveTotals,
    RecentSteps,
    Statistic,
)
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
        ranking = tally.ranking(statistic, wanted)
        assert [row.rank for row in ranking.top] == falling[:wanted]
        assert [row.rank for row in ranking.bottom] == rising[:wanted]
        assert (ranking.n, ranking.ranks) == (wanted, len(values))


def test_a_ranking_is_that_of_now() -> None:
    tally = LiveTotals()
    tally.add_totals([rank_row(0, 3), rank_row(1, 4)], [], [])
    assert [row.rank for row in tally.ranking("total", 1).top] == [1]
    tally.add_totals([rank_row(0, 5)], [], [])
    assert [row.rank for row in tally.ranking("total", 1).top] == [0]


@given(seed=st.integers(0, 1000))
def test_totals_come_out_the_same_in_any_order_and_however_often_they_are_reported(seed: int) -> None:
    made = _made()
    frames = [made.frame(tick, tick) for tick in range(20)]
    reported = frames + random.Random(seed).sample(frames, 8)
    random.Random(seed).shuffle(reported)
    tally = LiveTotals()
    for frame in reported:
        tally.add_frame(frame)
    assert sorted(tally.ranks.values(), key=lambda row: row.rank) == made.rank_statistics(20)
    assert sorted(tally.health.values(), key=lambda row: row.rank) == made.health(20, "reading")
    assert {row.name: row for row in tally.functions.values()} == {
        row.name: row for row in made.function_statistics(20)
    }


def test_frames_add_to_what_the_store_knew(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_totals(finished.rank_statistics(30), finished.function_statistics(30), finished.health(30))
    tally.add_frame(finished.frame(7, 40))
    tally.add_totals(finished.rank_statistics(35), [], [])
    assert [tally.ranks[0, rank] for rank in range(5)] == finished.rank_statistics(41)


def test_a_missing_tick_is_noticed(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(1, 0))
    tally.add_frame(finished.frame(2, 1))
    assert not tally.missed
    tally.add_frame(finished.frame(4, 2))
    assert tally.missed


def test_each_part_of_the_server_counts_its_own_frames_and_has_its_own_last(finished: MadeRun) -> None:
    tally = LiveTotals(parts=2)
    for part, tick, is_last in ((0, 1, False), (1, 1, False), (0, 2, False), (0, 3, True), (1, 2, False)):
        frame = finished.frame(tick, tick, is_last)
        tally.add_frame(msgspec.structs.replace(frame, part=part))
        assert not tally.missed and not tally.is_last
    tally.add_frame(msgspec.structs.replace(finished.frame(4, 5, is_last=True), part=1))
    assert tally.missed and tally.is_last


def test_who_comes_late_knows_that_frames_are_missing(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(5, 0))
    assert tally.missed


def test_the_last_frame_ends_the_streams(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(1, STEPS - 1))
    assert {stream.state for stream in tally.health.values()} == {"reading"}
    tally.add_frame(finished.frame(2, STEPS - 1, is_last=True))
    assert tally.is_last
    assert {stream.state for stream in tally.health.values()} == {"ended"}


def test_memory_does_not_grow_with_the_run() -> None:
    tally = LiveTotals()
    step = StepCount(0, 0, 0, 0, 1, 1, 0, 0.0)
    tally.recent.add(step for _ in range(RECENT_STEPS + 10))
    assert len(tally.recent) == len(tally.recent.of([(0, 0)])) == RECENT_STEPS


def test_recent_steps_are_found_by_rank() -> None:
    draw = random.Random(4)
    steps = [StepCount(draw.randrange(2), draw.randrange(5), at, 0, 1, 1, 0, 0.0) for at in range(300)]
    recent, reported = RecentSteps(100), 0
    while reported < len(steps):
        more = draw.randrange(1, 40)
        recent.add(steps[reported : reported + more])
        reported += more
        newest = steps[:reported][-100:]
        assert list(recent) == newest
        for rank in (0, 3), (1, 1), (1, 7):
            assert recent.of([rank]) == [step for step in newest if (step.program, step.rank) == rank]


def test_version_grows_with_news_only(finished: MadeRun) -> None:
    tally = LiveTotals()
    rows = finished.rank_statistics()
    tally.add_totals(rows, [], [])
    version = tally.version
    tally.add_totals(rows, [], [])
    assert tally.version == version > 0


@pytest.mark.parametrize("rows", [[], [rank_row(3, 1)]])
def test_few_ranks_are_ranked_too(rows: list[RankStatistics]) -> None:
    tally = LiveTotals()
    tally.add_totals(rows, [], [])
    ranking = tally.ranking("mean", 5)
    assert ranking.top == ranking.bottom == rows


def test_functions_come_by_time_lost(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_totals([], finished.function_statistics(), [])
    lost = [row.severity_us for row in tally.worst_functions()]
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
    ranking = tally.function_ranking(statistic, 2)
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
    assert [(row.name, row.mean, row.stddev) for row in tally.function_ranking("mean", 5).top] == [
        ("f", 0.5, None)
    ]
    assert tally.function_ranking("stddev", 5).functions == 0


@dataclass
class _Cache:
    made: MadeRun | None = None


_cache = _Cache()


@pytest.fixture(autouse=True)
def _keep(finished: MadeRun) -> None:
    _cache.made = finished


def _made() -> MadeRun:
    assert _cache.made is not None
    return _cache.made


def test_only_steps_are_progress(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(0, 0))
    version, progress = tally.version, tally.progress
    tally.add_frame(msgspec.structs.replace(finished.frame(1, 0), steps=[], ranks=[], health=[]))
    assert (tally.version, tally.progress) == (version + 1, progress), "an agent that speaks of itself"
    tally.add_frame(finished.frame(2, 1))
    assert tally.progress > progress
