"""The history of the analysis stays small, and sums are sums."""

from __future__ import annotations

from chimbuko.viz.vitals import MOST_SAMPLES, StreamSums, Vital, Vitals
from tests.viz.made_run import MadeRun

SECOND_US = 1_000_000


def followed(seconds: int, peak_at: int) -> Vitals:
    """One sample whenever one is due, asked each second; one lag stands out."""
    vitals = Vitals()
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


def test_sums_over_streams(finished: MadeRun) -> None:
    sums = StreamSums.of(iter(finished.health()))
    assert (sums.streams, sums.states) == (5, {"ended": 5})
    assert (sums.gap_steps, sums.lossy_ranks, sums.losses) == (4, 1, {"rows": 3})
    assert sums.steps == len(finished.steps) and sums.rows == 400 * len(finished.steps)
    assert StreamSums.of([]).largest_step_bytes == 0
