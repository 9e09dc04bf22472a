"""Ranks that are slow all the time: found among natural differences, and only they."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from chimbuko.core.arrays import Rows
from chimbuko.pserver.state import stragglers
from chimbuko.pserver.state.stragglers import LEAST_WINDOWS, WINDOWS, SlowRanks
from chimbuko.runtime.protocol.telemetry import PACE, SlowRank

CALL_SPREAD = 0.3
"""Of single calls, in the logarithm: a mean over 35 calls is known to 5 %."""


def windows(
    seed: int,
    ranks: int,
    functions: int = 10,
    number: int = 10,
    rank_spread: float = 0.01,
    slow: Iterable[int] = (),
    factor: float = 1.1,
    in_functions: slice = slice(None),
) -> Iterator[Rows]:
    """Paces of ranks that differ by nature, in functions whose pace changes for all from window to window."""
    random = np.random.default_rng(seed)
    own = random.normal(0.0, rank_spread, (ranks, functions))
    own[list(slow), in_functions] += np.log(factor)
    for window in range(number):
        rows = np.zeros(ranks * functions, PACE)
        rows["rank"] = np.repeat(np.arange(ranks), functions)
        rows["function"] = np.tile(np.arange(functions), ranks)
        rows["window"] = 170_000_000 + window
        rows["calls"] = random.integers(20, 51, len(rows))
        ln_us = np.log(2000.0) + own.ravel() + np.tile(random.normal(0.0, 0.2, functions), ranks)
        ln_us += random.normal(0.0, CALL_SPREAD, len(rows)) / np.sqrt(rows["calls"])
        rows["time_us"] = rows["calls"] * np.exp(ln_us)
        yield rows


def compared(paces: Iterable[Rows]) -> SlowRanks:
    slow = SlowRanks()
    for rows in paces:
        slow.take(rows)
        slow.compare()
    slow.compare(is_last=True)
    return slow


def found(slow: SlowRanks) -> list[SlowRank]:
    return slow.slow(lambda number: f"f{number}", lambda program, rank: f"node{rank // 40}")


@pytest.mark.compiled
def test_ranks_that_are_well_are_not_reported() -> None:
    """100 runs of 4 ranks and 10 functions, 1 of 1,000 ranks: 14,000 comparisons."""
    reported = [one for seed in range(100) for one in found(compared(windows(seed, 4)))]
    reported += found(compared(windows(1, 1000)))
    assert len(reported) <= 2
    assert all(one.function for one in reported)


@pytest.mark.parametrize(
    ("ranks", "slow"), [(4, [1]), pytest.param(1000, list(range(40, 80)), marks=pytest.mark.compiled)]
)
def test_a_bad_node_is_found(ranks: int, slow: list[int]) -> None:
    """A tenth slower, which no single call shows: all its ranks, in what they compute all together."""
    for seed in range(5):
        reported = found(compared(windows(seed, ranks, functions=20, slow=slow)))
        whole = [one for one in reported if not one.function]
        assert sorted(one.rank for one in whole) == slow
        assert {one.rank for one in reported} == set(slow)
        for one in whole:
            assert one.ratio == pytest.approx(1.1, rel=0.05)
            assert one.node == f"node{one.rank // 40}"
            assert (one.ranks, one.windows) == (ranks, 10)


def test_a_single_slow_function_is_found_with_what_it_costs() -> None:
    paces = list(windows(3, 8, slow=[5], factor=1.5, in_functions=slice(2, 3)))
    [one] = [one for one in found(compared(paces)) if one.function]
    assert (one.rank, one.function) == (5, "f2")
    assert one.ratio == pytest.approx(1.5, rel=0.1)
    spent_us = sum(
        row["time_us"] for rows in paces for row in rows if (row["rank"], row["function"]) == (5, 2)
    )
    assert one.lost_us == pytest.approx(spent_us / 3, rel=0.15)


def test_a_slow_while_is_not_all_the_time() -> None:
    healthy = list(windows(4, 6, number=WINDOWS))
    for rows in healthy[3:6]:
        rows["time_us"][rows["rank"] == 2] *= 3.0
    assert not found(compared(healthy))


def test_a_few_windows_are_not_all_the_time() -> None:
    few = windows(5, 6, number=LEAST_WINDOWS - 1, slow=[1], factor=3.0)
    assert not found(compared(few))


def test_two_ranks_cannot_tell_who_is_slow() -> None:
    assert not found(compared(windows(6, 2, slow=[1], factor=3.0)))


def test_a_rank_with_few_calls_is_not_slow_by_chance() -> None:
    paces = list(windows(7, 50, rank_spread=0.0))
    for rows in paces:
        is_rare = rows["rank"] == 9
        rows["time_us"][is_rare] = 2 * 2000.0 * 1.15
        rows["calls"][is_rare] = 2
    assert not [one for one in found(compared(paces)) if one.function]


def test_the_order_of_arrival_and_repetition_change_nothing() -> None:
    """Ranks report one by one, some of them soon three windows behind, and some report a window twice."""
    paces = list(windows(8, 6, slow=[3], factor=1.3))
    expected = found(compared(paces))
    parts = [rows[rows["rank"] == rank] for rows in paces for rank in range(6)]
    order = sorted(range(len(parts)), key=lambda at: at // 6 + (3 if at % 2 and at > 6 else 0))
    apart = compared(part for at in order for part in [parts[at]] * (1 + at % 4 // 2))
    assert expected and found(apart) == expected


def test_who_says_nothing_any_more_holds_up_nobody() -> None:
    paces = list(windows(9, 6, number=30, slow=[3], factor=1.3))
    slow = SlowRanks()
    for window, rows in enumerate(paces):
        slow.take(rows if window < 2 else rows[rows["rank"] != 0])
        slow.compare()
    assert {one.rank for one in found(slow)} == {3}


def test_a_large_window_is_compared_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function at a time, the server being replaced by another one after each."""
    paces = list(windows(13, 6, number=6, slow=[3], factor=1.3))
    expected = found(compared(paces))
    monkeypatch.setattr(stragglers, "ROWS_AT_ONCE", 1)
    slow = SlowRanks()
    steps = 0
    for rows in paces:
        slow.take(rows)
        while slow.compare():
            steps += 1
            saved, slow = slow.dump(), SlowRanks()
            slow.restore(saved)
    slow.compare(is_last=True)
    assert steps >= 5 * 10
    assert found(slow) == expected


def test_what_was_saved_goes_on() -> None:
    paces = list(windows(10, 6, slow=[3], factor=1.3))
    straight, first, second = SlowRanks(), SlowRanks(), SlowRanks()
    for rows in paces[:5]:
        straight.take(rows)
        first.take(rows)
    straight.take(paces[5][:20])
    first.take(paces[5][:20])
    second.restore(first.dump())
    for one in (straight, second):
        one.take(paces[5])
        for rows in paces[6:]:
            one.take(rows)
        one.compare(is_last=True)
    assert found(second) == found(straight)
    assert {one.rank for one in found(second)} == {3}


def test_programs_are_compared_apart() -> None:
    rows = list(windows(11, 6, slow=[3], factor=1.3))
    other = [part.copy() for part in windows(12, 6, number=10)]
    for part in other:
        part["program"] = 1
        part["time_us"] *= 5.0
    both = found(compared(np.concatenate(pair) for pair in zip(rows, other, strict=True)))
    assert {(one.program, one.rank) for one in both} == {(0, 3)}
