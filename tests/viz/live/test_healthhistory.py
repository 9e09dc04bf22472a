"""The history of the analysis stays small, and sums are sums."""

from __future__ import annotations

import pytest

from chimbuko.viz.live.healthhistory import MOST_SAMPLES, HealthHistory, Past, StreamSums, Vital
from tests.viz.made_run import STEP_US, ZERO_US, MadeRun

SECOND_US = 1_000_000


def followed(seconds: int, peak_at: int) -> HealthHistory:
    """One sample whenever one is due, asked each second; one lag stands out."""
    vitals = HealthHistory()
    for second in range(seconds):
        now_us = second * SECOND_US
        lag_us = 9_000_000 if second == peak_at else None if second < 10 else 100_000
        if vitals.is_due(now_us) or second == peak_at:
            vitals.add(Vital(now_us, 1_000 * second, second // 50, lag_us, second, 2 * second))
    return vitals


def test_a_long_history_keeps_its_ends_and_its_peak() -> None:
    vitals = followed(3_600, peak_at=1_800)
    samples = vitals.samples
    assert MOST_SAMPLES / 2 <= len(samples) <= MOST_SAMPLES
    assert [one.time_us for one in samples] == sorted({one.time_us for one in samples})
    assert samples[0].time_us < 60 * SECOND_US and samples[0].lag_us in (None, 100_000)
    assert samples[-1].time_us > 3_560 * SECOND_US
    assert max(one.lag_us or 0 for one in samples) == 9_000_000, "merging keeps peaks"
    assert [one.rows for one in samples] == sorted(one.rows for one in samples), "totals stay totals"


def test_a_short_history_is_as_it_was() -> None:
    vitals = followed(60, peak_at=30)
    assert [one.time_us for one in vitals.samples] == [second * SECOND_US for second in range(60)]
    assert vitals.samples[5].lag_us is None, "an unknown lag is not 0"


@pytest.mark.parametrize(("started_us", "lag_us"), [(ZERO_US, 30_000), (ZERO_US + 99 * STEP_US, None)])
def test_what_was_before_is_told_by_frames(finished: MadeRun, started_us: int, lag_us: int | None) -> None:
    vitals, past = HealthHistory(), Past(started_us)
    for step in range(3):
        past.take(finished.frame(1 + step, step))
        newest_us = max(one.end_us for one in finished.steps if one.step == step)
        past.add_to(vitals, newest_us + 30_000)
    assert [one.lag_us for one in vitals.samples] == [lag_us] * 3
    assert vitals.samples[0].rows == sum(stream.rows for stream in finished.health(1))


def test_it_is_not_known_where_the_first_frames_are_gone(finished: MadeRun) -> None:
    vitals, past = HealthHistory(), Past(ZERO_US)
    for step in range(3):
        past.take(finished.frame(9 + step, step))
        past.add_to(vitals, ZERO_US + step * SECOND_US)
    assert vitals.samples == []


def test_sums_over_streams(finished: MadeRun) -> None:
    sums = StreamSums.of(iter(finished.health()))
    assert (sums.streams, sums.states) == (5, {"ended": 5})
    assert (sums.gap_steps, sums.lossy_ranks, sums.losses) == (4, 1, {"rows": 3})
    assert sums.steps == len(finished.steps) and sums.rows == 400 * len(finished.steps)
    assert StreamSums.of([]).largest_step_bytes == 0
