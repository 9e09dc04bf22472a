"""What an analysis adds to an application whose ranks wait for each other."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.plan.loads import Pipeline, measured
from chimbuko.plan.noise import Noise, added_share, effects

APART = Noise(share=0.008, period_s=1.0, within_s=1.0)


def played(noise: Noise, ranks: int, meets_s: float, periods: int) -> float:
    """The same, interval by interval, with a burst of each rank in each period."""
    random = np.random.default_rng(1)
    intervals = 2 * round(noise.period_s / meets_s)
    added_s = 0.0
    for _ in range(periods):
        delays_s = np.zeros((ranks, intervals))
        left_s = noise.burst_s * random.lognormal(-(noise.spread**2) / 2, noise.spread, ranks)
        at = random.integers(0, max(round(noise.within_s / meets_s), 1), ranks)
        while left_s.any():
            done_s = np.minimum(left_s, noise.most_share * meets_s)
            delays_s[np.arange(ranks), at] += done_s
            left_s, at = left_s - done_s, at + 1
        added_s += delays_s.max(axis=0).sum()
    return added_s / periods / noise.period_s


@pytest.mark.parametrize("ranks", [1, 8, 100, 1000])
@pytest.mark.parametrize("within_s", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("meets_s", [0.02, 0.005])
def test_it_is_what_playing_all_intervals_gives(ranks: int, within_s: float, meets_s: float) -> None:
    noise = msgspec.structs.replace(APART, within_s=within_s)
    assert added_share(noise, ranks, meets_s) == pytest.approx(played(noise, ranks, meets_s, 30), rel=0.12)


def test_one_rank_is_delayed_by_its_share_and_an_interval_at_most_doubles() -> None:
    assert added_share(APART, 1, 0.1) == pytest.approx(0.008, rel=1e-3)
    assert added_share(APART, 1, 0.001) == pytest.approx(0.008, rel=0.15)
    assert added_share(APART, 10**7, 0.008) <= 1.0 + 1e-9


@given(st.integers(1, 100_000), st.floats(1e-3, 1.0), st.floats(1e-5, 0.05), st.floats(0.0, 1.0))
def test_twice_the_ranks_add_at_most_twice(ranks: int, meets_s: float, share: float, within_s: float) -> None:
    noise = Noise(share, 1.0, within_s)
    few, many = added_share(noise, ranks, meets_s), added_share(noise, 2 * ranks, meets_s)
    assert few - 1e-9 <= many <= 2 * few + 1e-9


def test_bursts_at_one_moment_and_a_core_of_its_own_add_less() -> None:
    found = effects(Pipeline(10_000), measured())
    assert found[0].where == "on the ranks' cores, at moments apart"
    assert found[0].added_share > 0.5 and found[-1].added_share < 0.05
