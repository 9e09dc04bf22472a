"""Forgetting: the same whatever the order of deltas, and bounded; drift is noticed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.kernels.buckets import bucket_of, count_above, exceeded_by
from chimbuko.core.kernels.decay import ERA_CALLS, MEMORY_CALLS
from chimbuko.core.statistics.schema import cells_of, pack_cells
from chimbuko.pserver.state.functions import Decay
from tests.plainpython import examples
from tests.reference.eras import NaiveEras

FUNCTIONS = 3

delta = st.tuples(st.integers(0, FUNCTIONS - 1), st.integers(0, BUCKETS - 1), st.integers(1, 6000))
epochs = st.lists(st.lists(delta, max_size=6), max_size=30)


def add(eras: Decay, deltas: list[tuple[int, int, int]]) -> None:
    """Each as one row; functions may be named several times."""
    counts = np.zeros((len(deltas), BUCKETS))
    for row, (_, bucket, calls) in zip(counts, deltas, strict=True):
        row[bucket] = calls
    add_rows(eras, np.array([function for function, _, _ in deltas], np.int64), counts)


def add_rows(eras: Decay, rows: np.ndarray, counts: np.ndarray) -> None:
    """Dense rows f8[n, BUCKETS]."""
    eras.add(rows, *cells_of(pack_cells(counts)))


def all_of(eras: Decay) -> np.ndarray:
    return eras.remembered(np.arange(FUNCTIONS))


@pytest.mark.compiled
@examples(100)
@given(epochs, st.randoms(use_true_random=False))
def test_what_is_remembered_does_not_depend_on_the_order_within_an_epoch(
    sequence: list[list[tuple[int, int, int]]], random: Random
) -> None:
    """All at once, or one by one in any order."""
    together, apart = Decay(), Decay()
    for one in (together, apart):
        one.reserve(FUNCTIONS)
    for deltas in sequence:
        add(together, deltas)
        for part in random.sample(deltas, len(deltas)):
            add(apart, [part])
        for changed, others in zip(together.end_epoch(), apart.end_epoch(), strict=True):
            np.testing.assert_array_equal(changed, others)
        np.testing.assert_array_equal(all_of(together), all_of(apart))
        functions = np.arange(FUNCTIONS)
        np.testing.assert_array_equal(together.drift(functions), apart.drift(functions))


@examples(100)
@given(epochs)
def test_the_newest_calls_are_remembered_and_old_ones_forgotten(
    sequence: list[list[tuple[int, int, int]]],
) -> None:
    eras = Decay()
    eras.reserve(FUNCTIONS)
    history = np.zeros(FUNCTIONS)
    largest = 0.0
    for deltas in sequence:
        before = all_of(eras)
        add(eras, deltas)
        new = all_of(eras) - before
        history += new.sum(axis=1)
        largest = max(largest, new.sum(axis=1).max())
        changed, _ = eras.end_epoch()
        kept = all_of(eras)
        # What came in this epoch is neither forgotten nor moved at its end.
        assert (kept >= new - 1e-6).all()
        unchanged = np.setdiff1d(np.arange(FUNCTIONS), changed)
        np.testing.assert_allclose(kept[unchanged], before[unchanged] + new[unchanged], rtol=1e-12)
        calls = kept.sum(axis=1)
        assert (calls <= history + 1e-6).all()
        assert (calls >= np.minimum(history, MEMORY_CALLS) - 1e-6).all()
        assert (calls <= 2 * MEMORY_CALLS + 3 * (ERA_CALLS + largest)).all()


def test_memory_depends_on_functions_only() -> None:
    eras = Decay()
    for epoch in range(200):
        add(eras, [(function, 50 + epoch % 10, 1000) for function in range(FUNCTIONS)])
        eras.end_epoch()
    assert sum(array.nbytes for array in vars(eras).values()) <= 64 * 8 * (3 * BUCKETS + 3) + 64
    assert (all_of(eras).sum(axis=1) < 2 * MEMORY_CALLS + 2 * ERA_CALLS).all()


def counts_of(runtimes_us: np.ndarray) -> np.ndarray:
    return np.bincount([bucket_of(us) for us in runtimes_us.tolist()], minlength=BUCKETS).astype(float)[None]


def gamma(random: np.random.Generator, mean_us: float) -> np.ndarray:
    return random.gamma(8.0, mean_us / 8.0, 500)


def quantile_us(eras: Decay, share: float) -> float:
    """That the share of what is remembered exceed."""
    above = np.empty(BUCKETS + 1)
    count_above(eras.remembered(np.array([0]))[0], above)
    return exceeded_by(above, EDGES_US, share * above[0])


def test_slow_drift_is_followed_and_its_extent_known() -> None:
    """1 % per 100 calls, to double; the tail that is judged by is that of the newest calls, not a mixture."""
    random, eras = np.random.default_rng(1), Decay()
    factor = 1.0
    while factor < 2.0:
        add_rows(eras, np.zeros(1, np.int64), counts_of(gamma(random, 1000.0 * factor)))
        eras.end_epoch()
        factor += 0.05
    # The eras at both ends are 5 % within.
    assert eras.drift(np.zeros(1, np.int64))[0] == pytest.approx(1.9, rel=0.1)
    for share in (0.5, 0.01):
        exact = np.quantile(gamma(np.random.default_rng(2), 1000.0 * factor), 1 - share)
        assert quantile_us(eras, share) == pytest.approx(exact, rel=0.15)


def test_what_stays_as_it_is_does_not_drift() -> None:
    random, eras = np.random.default_rng(1), Decay()
    for _ in range(100):
        add_rows(eras, np.zeros(1, np.int64), counts_of(gamma(random, 1000.0)))
        eras.end_epoch()
    assert eras.drift(np.zeros(1, np.int64))[0] == pytest.approx(1.0, rel=0.05)


def test_modes_that_take_turns_are_no_drift() -> None:
    """The median jumps from one mode to the other, and back; the quartiles do not."""
    random, eras = np.random.default_rng(1), Decay()
    for epoch in range(100):
        slow = 0.4 if epoch % 4 < 2 else 0.6
        modes = random.choice([200.0, 400.0], 500, p=[1 - slow, slow])
        add_rows(eras, np.zeros(1, np.int64), counts_of(modes * random.lognormal(0.0, 0.05, 500)))
        eras.end_epoch()
    assert eras.drift(np.zeros(1, np.int64))[0] == pytest.approx(1.0, rel=0.05)
    assert quantile_us(eras, 0.75) < 220.0 and quantile_us(eras, 0.25) > 370.0


def test_delays_are_no_drift() -> None:
    random, eras = np.random.default_rng(1), Decay()
    for epoch in range(40):
        runtimes_us = gamma(random, 1000.0)
        runtimes_us[: epoch % 10] *= 100.0
        add_rows(eras, np.zeros(1, np.int64), counts_of(runtimes_us))
        eras.end_epoch()
    assert eras.drift(np.zeros(1, np.int64))[0] == pytest.approx(1.0, rel=0.05)


def test_what_begins_has_not_drifted() -> None:
    eras = Decay()
    add(eras, [(0, 60, 10 * int(ERA_CALLS))])
    changed, moved = eras.end_epoch()
    assert (len(changed), len(moved), eras.drift(np.arange(2)).tolist()) == (0, 0, [1.0, 1.0])


def test_what_is_saved_goes_on_as_it_was() -> None:
    random, eras = np.random.default_rng(1), Decay()
    other = Decay()
    for epoch in range(80):
        counts = counts_of(gamma(random, 1000.0 * 1.01**epoch))
        for one in (eras, other):
            add_rows(one, np.zeros(1, np.int64), counts)
            one.end_epoch()
        other = Decay.restored(other.save())
        np.testing.assert_array_equal(all_of(eras), all_of(other))
    assert other.drift(np.zeros(1, np.int64))[0] == eras.drift(np.zeros(1, np.int64))[0] > 1.3


@pytest.mark.compiled
@examples(6)
@given(st.lists(st.tuples(st.integers(2, 12), st.integers(0, 700)), min_size=1, max_size=40))
def test_eras_end_as_in_the_slow_twin(epochs: list[tuple[int, int]]) -> None:
    """Runtimes around a level that drifts and jumps."""
    random = np.random.default_rng(1)
    eras, naive = Decay(), NaiveEras()
    eras.reserve(1)
    for level, calls in epochs:
        runtimes_us = random.normal(1.0, 0.2, 4 * calls) * 2.0**level
        counts = counts_of(np.maximum(runtimes_us, 0.1))
        add_rows(eras, np.zeros(1, np.int64), counts)
        naive.era += counts[0]
        eras.end_epoch()
        naive.end_epoch()
        np.testing.assert_allclose(eras.remembered(np.zeros(1, np.int64))[0], naive.remembered(), atol=1e-6)
        assert eras.drift(np.zeros(1, np.int64))[0] == pytest.approx(np.exp(naive.ln_drift))


@pytest.mark.compiled
def test_what_earlier_runs_knew_goes_to_the_level_of_this_one() -> None:
    """A function that a new version has made slower is not abnormal in each call, and has not drifted."""
    eras = Decay()
    known = np.zeros(BUCKETS)
    known[80] = 200.0
    eras.begin_with(0, known)
    add(eras, [(0, 104, 7)])
    assert [len(one) for one in eras.end_epoch()] == [0, 0]
    add(eras, [(0, 104, 3)])
    assert [one.tolist() for one in eras.end_epoch()] == [[0], [0]]
    assert eras.remembered(np.array([0]))[0, 100:].sum() == pytest.approx(210.0)
    restored = Decay.restored(eras.save())
    add(restored, [(0, 104, int(ERA_CALLS))])
    restored.end_epoch()
    assert restored.drift(np.array([0])) == 1.0
    add(restored, [(0, 112, int(ERA_CALLS))])
    restored.end_epoch()
    assert restored.drift(np.array([0]))[0] > 1.5
