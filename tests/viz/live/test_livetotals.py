"""Running totals of a run."""

from __future__ import annotations

import random
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.record import StepCount
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.viz.live.totals import RECENT_STEPS, LiveTotals
from tests.viz.made_run import STEPS, MadeRun


@given(seed=st.integers(0, 1000))
def test_totals_come_out_the_same_in_any_order_and_however_often_they_are_reported(seed: int) -> None:
    made = _made()
    frames = [made.frame(tick, tick) for tick in range(20)]
    reported = frames + random.Random(seed).sample(frames, 8)
    random.Random(seed).shuffle(reported)
    tally = LiveTotals()
    for frame in reported:
        tally.add_frame(frame)
    totals = tally.now()
    assert sorted(totals.ranks.values(), key=lambda row: row.rank) == made.rank_statistics(20)
    assert sorted(totals.health.values(), key=lambda row: row.rank) == made.health(20, "reading")
    assert {row.name: row for row in totals.functions.values()} == {
        row.name: row for row in made.function_statistics(20)
    }


def test_frames_add_to_what_the_store_knew(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_totals(finished.rank_statistics(30), finished.function_statistics(30), finished.health(30))
    tally.add_frame(finished.frame(7, 40))
    tally.add_totals(finished.rank_statistics(35), [], [])
    assert [tally.now().ranks[0, rank] for rank in range(5)] == finished.rank_statistics(41)


def test_the_last_frame_ends_the_streams(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(1, STEPS - 1))
    assert {stream.state for stream in tally.now().health.values()} == {"reading"}
    tally.add_frame(finished.frame(2, STEPS - 1, is_last=True))
    assert {stream.state for stream in tally.now().health.values()} == {"ended"}


def test_version_grows_with_news_only(finished: MadeRun) -> None:
    tally = LiveTotals()
    rows = finished.rank_statistics()
    tally.add_totals(rows, [], [])
    version = tally.version
    tally.add_totals(rows, [], [])
    assert tally.version == version > 0


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


def test_totals_of_a_moment_stay_as_they_are(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(1, 10))
    first, steps = tally.now(), [step for step in finished.steps if step.step == 10]
    assert tally.now() is first
    before = dict(first.ranks), first.streams(), first.sums, first.recent_steps(first.ranks)
    tally.add_frame(finished.frame(2, 11))
    assert before == (first.ranks, first.streams(), first.sums, first.recent_steps(first.ranks))
    assert first.recent_steps((0, rank) for rank in range(5)) == steps
    assert tally.now().sums.last_step == 11


def test_memory_does_not_grow_with_the_run() -> None:
    tally = LiveTotals()
    steps = [StepCount(0, 0, number, 0, 1, 1, 0, 0.0) for number in range(RECENT_STEPS + 10)]
    tally.add_frame(Frame(1, [], steps, [], [], False))
    assert list(tally.now().recent) == steps[10:]


def test_recent_steps_are_found_by_rank() -> None:
    draw, tally = random.Random(4), LiveTotals()
    steps = [StepCount(draw.randrange(2), draw.randrange(5), at, 0, 1, 1, 0, 0.0) for at in range(300)]
    tally.add_frame(Frame(1, [], steps, [], [], False))
    for rank in (0, 3), (1, 1), (1, 7):
        assert tally.now().recent_steps([rank]) == [one for one in steps if (one.program, one.rank) == rank]


def test_the_analysed_time_only_grows() -> None:
    tally = LiveTotals()
    assert (tally.now().zero_us, tally.now().newest_us) == (None, None)
    for times_us in (20, 30), (10, 25), (22, 40), (30, 35):
        tally.add_times(*times_us)
    assert (tally.now().zero_us, tally.now().newest_us) == (10, 40)


def test_only_steps_are_progress(finished: MadeRun) -> None:
    tally = LiveTotals()
    tally.add_frame(finished.frame(0, 0))
    version, progress = tally.version, tally.progress
    tally.add_frame(msgspec.structs.replace(finished.frame(1, 0), steps=[], ranks=[], health=[]))
    assert (tally.version, tally.progress) == (version + 1, progress), "an agent that speaks of itself"
    tally.add_frame(finished.frame(2, 1))
    assert tally.progress > progress
