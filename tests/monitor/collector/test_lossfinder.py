"""Losses by looks at a thread: what is lost is found, once, and what is usual is no loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.monitor.collector.lossfinder import (
    LEAST_LOST_US,
    LEAST_SHARE,
    LONGEST_US,
    QUIET_US,
    Loss,
    LossesOfThread,
    LossFinder,
    Stretch,
)

MS = 1_000
LOOK_US = 20 * MS
CALM_S = 8


def looks(begin_us: int, end_us: int, waited: float = 0.0, is_stopped: bool = False) -> Iterator[Stretch]:
    """Looks at a thread that runs, and waits for a share of the time; or that stands still all of it."""
    for at in range(begin_us, end_us, LOOK_US):
        to = min(at + LOOK_US, end_us)
        length_us = to - at
        waited_us = round(waited * length_us)
        ran_us = 0 if is_stopped else length_us - waited_us
        yield Stretch(at, to, ran_us, waited_us, is_stopped and at > begin_us, is_stopped)


def losses(stretches: Iterable[Stretch], every: int = 50) -> list[tuple[bool, Loss]]:
    """All that is said of them, each as it was said last; it is asked once a second."""
    thread, found = LossesOfThread(), dict[tuple[bool, int], Loss]()
    for number, stretch in enumerate(stretches, 1):
        thread.add(stretch)
        for is_stop, loss in thread.news() if number % every == 0 else []:
            found[is_stop, loss.begin_us] = loss
    found |= {(is_stop, loss.begin_us): loss for is_stop, loss in thread.news()}
    return [(is_stop, loss) for (is_stop, _), loss in found.items()]


def with_burst(usual: float, burst: float, burst_us: int, calm_s: int = CALM_S) -> list[Stretch]:
    begin_us = calm_s * 1_000 * MS
    return [
        *looks(0, begin_us, usual),
        *looks(begin_us, begin_us + burst_us, burst),
        *looks(begin_us + burst_us, 2 * begin_us, usual),
    ]


def test_who_shares_its_core_for_a_while_loses_half_of_that() -> None:
    begin_us = CALM_S * 1_000 * MS
    assert losses(with_burst(0.0, 0.5, 2_000 * MS)) == [
        (False, Loss(begin_us, begin_us + 2_000 * MS, 1_000 * MS))
    ]


@pytest.mark.parametrize(
    ("usual", "burst", "burst_us"),
    [
        (0.0, 0.5, 80 * MS),  # less than 50 ms
        (0.0, 0.9 * LEAST_SHARE, 6_000 * MS),  # less than a tenth
        (0.5, 0.7, 2_000 * MS),  # ranks that share their cores by design
        (0.2, 0.2, 2_000 * MS),
    ],
)
def test_what_is_little_or_usual_is_no_loss(usual: float, burst: float, burst_us: int) -> None:
    assert losses(with_burst(usual, burst, burst_us)) == []


def test_what_is_usual_is_no_part_of_a_loss() -> None:
    ((_, loss),) = losses(with_burst(0.2, 0.6, 1_000 * MS))
    assert loss.lost_us == pytest.approx(400 * MS, rel=0.02)


def test_before_it_is_known_what_is_usual_no_wait_is_a_loss_but_a_stop_is() -> None:
    assert losses(with_burst(0.0, 0.9, 300 * MS, calm_s=3)) == []
    stopped = [*looks(0, 100 * MS), *looks(100 * MS, 200 * MS, is_stopped=True), *looks(200 * MS, 400 * MS)]
    assert losses(stopped) == [(True, Loss(100 * MS, 200 * MS, 100 * MS))]


@pytest.mark.parametrize(("between_us", "count"), [(60 * MS, 1), (300 * MS, 2)])
def test_stops_are_one_where_the_thread_hardly_goes_on_between_them(between_us: int, count: int) -> None:
    begin_us, length_us = 100 * MS, 200 * MS
    second_us = begin_us + length_us + between_us
    end_us = second_us + length_us
    found = losses(
        [
            *looks(0, begin_us),
            *looks(begin_us, begin_us + length_us, is_stopped=True),
            *looks(begin_us + length_us, second_us),
            *looks(second_us, end_us, is_stopped=True),
            *looks(end_us, end_us + 300 * MS),
        ]
    )
    assert [loss.lost_us for _, loss in found] == [2 * length_us // count] * count
    assert (found[0][1].begin_us, found[-1][1].end_us) == (begin_us, end_us)


def test_a_load_that_stays_is_usual_after_a_minute() -> None:
    begin_us = CALM_S * 1_000 * MS
    load = looks(begin_us, begin_us + 3 * LONGEST_US, 0.5)
    ((_, loss),) = losses([*looks(0, begin_us), *load])
    assert loss.end_us - loss.begin_us == pytest.approx(LONGEST_US, rel=0.02)


def test_one_long_wait_counts_from_where_it_began_though_it_is_counted_when_it_is_over() -> None:
    begin_us = CALM_S * 1_000 * MS
    starts = range(begin_us, begin_us + 80 * MS, LOOK_US)
    waiting = [Stretch(at, at + LOOK_US, 0, 0, False, False) for at in starts]
    over = Stretch(begin_us + 80 * MS, begin_us + 100 * MS, 0, 100 * MS, False, False)
    calm = looks(begin_us + 100 * MS, 2 * begin_us)
    assert losses([*looks(0, begin_us), *waiting, over, *calm]) == [
        (False, Loss(begin_us, begin_us + 100 * MS, 100 * MS))
    ]


STRETCHES = st.lists(st.tuples(st.integers(1, 400), st.floats(0.0, 1.0)), max_size=60)


@given(STRETCHES)
def test_a_loss_is_as_much_as_was_lost_in_it_and_as_large_as_a_loss_has_to_be(
    drawn: list[tuple[int, float]],
) -> None:
    finder, stretches, found, at = LossFinder(), [], [], 0
    for length_ms, share in [*drawn, (QUIET_US // MS, 0.0), (1, 0.0)]:
        begin_us, at = at, at + length_ms * MS
        stretches.append((begin_us, at, round(share * length_ms * MS)))
        over = finder.add(*stretches[-1])
        found += [over] if over is not None else []
    assert finder.loss is None
    assert all(before.end_us <= after.begin_us for before, after in pairwise(found))
    for loss in found:
        inside = [lost for begin, end, lost in stretches if end > loss.begin_us and begin < loss.end_us]
        assert loss.lost_us == sum(inside) >= LEAST_LOST_US
        assert loss.lost_us >= LEAST_SHARE * (loss.end_us - loss.begin_us)
    # What is lost without a break is found.
    is_certain = any(
        lost == end - begin >= LEAST_LOST_US / (1 - LEAST_SHARE) for begin, end, lost in stretches
    )
    assert found or not is_certain
