"""What a thread did in an interval: the parts add up, and each is where it happened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.causes.evidence.threadactivity import SlowTimes, ThreadActivity, Usual, activity_in
from chimbuko.monitor.procfs.systemcalls import FILES, LOCKS
from chimbuko.monitor.sampling.rows import THREAD, overlaps_us
from tests.causes.flagged import at
from tests.causes.nodes import thread, ticks


def activity(
    rows: list[np.void], begin_ms: float, end_ms: float, *disturbed: tuple[float, float]
) -> ThreadActivity:
    others = SlowTimes((at(begin), at(end)) for begin, end in disturbed)
    return activity_in(np.array(rows, THREAD), at(begin_ms), at(end_ms), others)


@st.composite
def looks(draw: st.DrawFn) -> list[np.void]:
    rows, time = [], 0.0
    for _ in range(draw(st.integers(1, 12))):
        length = draw(st.integers(1, 60))
        ran = draw(st.integers(0, length * 1100))
        waited = draw(st.integers(0, length * 3000))
        state = draw(st.sampled_from([b"R", b"S", b"D", b"T"]))
        system = draw(st.sampled_from([0, 10_000, 20_000]))
        values = {"ran_us": ran, "waited_us": waited, "state": state, "system_us": system}
        rows.append(thread(0, time, time + length, call=draw(st.integers(-1, 300)), **values))
        time += length + draw(st.sampled_from([0, 0, 0, 5]))
    return rows


@given(looks(), st.integers(-20, 200), st.integers(1, 300))
def test_no_more_is_seen_than_there_was_time(rows: list[np.void], begin: int, length: int) -> None:
    found = activity(rows, begin, begin + length)
    times = [found.ran_us, found.waited_us, found.usual_wait_us, *found.asleep_us.values()]
    assert all(us >= 0 for us in times) and sum(times) <= found.length_us * (1 + 1e-9) + 1
    assert found.system_us <= found.ran_us + 1e-6


def test_a_wait_is_counted_by_the_kernel_when_it_is_over_and_was_before() -> None:
    # It stood in the queue for 150 ms, of which nothing is to be read before its end.
    rows = [
        *ticks(1, 0, 20),
        *ticks(1, 20, 160, ran_us=0),
        *ticks(1, 160, 180, ran_us=10_000, waited_us=150_000),
        *ticks(1, 180, 240),
    ]
    found = activity(rows, 20, 180)
    assert (round(found.waited_us), round(found.ran_us)) == (150_000, 10_000)
    assert activity(rows, 0, 20).waited_us == 0 and activity(rows, 180, 240).waited_us == 0


def test_of_a_row_that_lies_in_the_call_only_partly_what_is_not_usual_happened_in_it() -> None:
    calm = [*ticks(1, -200, 0), *ticks(1, 60, 260)]
    rows = [thread(1, 0, 20, ran_us=10_000, state=b"T"), thread(1, 20, 40, ran_us=10_000), *ticks(1, 40, 60)]
    found = activity([*calm, *rows], 10, 30)
    assert found.stopped_us == pytest.approx(20_000) and found.ran_us == pytest.approx(0)
    # Without knowing what was before, half of what it stood still in the first row; in the next one until it
    # went on.
    assert activity(rows, 10, 30).stopped_us == pytest.approx(15_000)


def test_a_wait_that_is_usual_of_it_is_no_more_than_that() -> None:
    # All the time it has half of a core, in turns of 3 ms.
    rows = ticks(1, -400, 600, ran_us=10_000, waited_us=10_000)
    found = activity(rows, 0, 200)
    assert (round(found.waited_us), round(found.usual_wait_us)) == (0, 100_000)
    # A while of it is no usual one if other calls were slow then.
    mixed = [*ticks(1, -400, 0), *ticks(1, 0, 600, ran_us=10_000, waited_us=10_000)]
    assert activity(mixed, 0, 200, (200, 600)).waited_us == pytest.approx(100_000)


def test_a_thread_that_is_woken_often_waits_as_often() -> None:
    calm = ticks(1, -400, 0, ran_us=1_000, waited_us=500, slices=1, state=b"S")
    woken = ticks(1, 0, 200, ran_us=4_000, waited_us=10_000, slices=20, state=b"D", call=min(FILES))
    found = activity([*calm, *woken], 0, 200)
    assert found.waited_us == pytest.approx(0) and found.usual_wait_us == pytest.approx(100_000)


def test_long_rows_say_only_what_cannot_have_happened_beside_the_call() -> None:
    second = thread(1, -300, 700, ran_us=850_000, waited_us=150_000)
    assert activity([second], 0, 200).waited_us == 0
    still = thread(1, -300, 700, ran_us=100_000, state=b"T")
    assert activity([still], 0, 200).stopped_us == pytest.approx(100_000)


def test_a_thread_that_is_often_woken_slept_in_what_it_is_found_in() -> None:
    short = [
        row
        for n in range(0, 200, 40)
        for row in (
            *ticks(1, n, n + 20, ran_us=5_000, state=b"R"),
            *ticks(1, n + 20, n + 40, ran_us=5_000, state=b"D", call=min(FILES)),
        )
    ]
    found = activity(short, 0, 200)
    assert found.slept_us(FILES) == pytest.approx(150_000) and found.slept_us(LOCKS) == 0


def taken(usual: Usual, **values: int) -> ThreadActivity:
    """Activity in 200 ms with such looks, beside calm ones in which half of the time was waited."""
    calm = ticks(1, -200, 0, ran_us=10_000, waited_us=10_000, slices=2)
    rows = [*calm, *ticks(1, 0, 200, **values)]
    return activity_in(np.array(rows, THREAD), at(0), at(200), None, usual)


def test_slices_that_others_cut_are_no_reason_to_wait() -> None:
    """A thread that does not sleep is not woken: it is put on a core so often as it was taken from it."""
    usual = Usual(1e6, 1e6, 200)
    cut = taken(usual, ran_us=2_000, waited_us=18_000, slices=8)
    assert (cut.usual_wait_us, cut.waited_us) == (pytest.approx(20_000), pytest.approx(160_000))
    woken = taken(usual, ran_us=2_000, waited_us=13_000, slices=8, state=b"S")
    assert (woken.usual_wait_us, woken.waited_us) == (pytest.approx(130_000), pytest.approx(0))


def test_what_is_usual_has_no_more_wait_in_it_than_there_was_beside() -> None:
    """The delays that are looked for are in all that a thread ever did."""
    found = taken(Usual(1e6, 3e6, 200), ran_us=4_000, waited_us=16_000)
    assert (found.usual_wait_us, found.waited_us) == (pytest.approx(40_000), pytest.approx(120_000))


def test_a_stop_lies_where_its_rows_begin_and_end_it() -> None:
    # From 20 ms on, up to 180 ms.
    rows = [
        *ticks(1, -80, 0),
        thread(1, 0, 80, ran_us=20_000, state=b"T"),
        thread(1, 80, 160, ran_us=0, state=b"T"),
        thread(1, 160, 240, ran_us=60_000),
        *ticks(1, 240, 320),
    ]
    calls = (5, 15, 0, 10), (10, 190, 160, 20), (170, 200, 10, 20), (200, 210, 0, 10)
    for begin, end, stopped, ran in calls:
        found = activity(rows, begin, end)
        assert (round(found.stopped_us), round(found.ran_us)) == (1000 * stopped, 1000 * ran), (begin, end)


def test_a_thread_that_sleeps_for_something_soon_after_a_stop_was_stopped_until_then() -> None:
    # Looks 60 ms apart, as where they cost much: it goes on at 170 ms, ends its call, and sleeps.
    rows = [
        *ticks(1, -180, 0),
        thread(1, 0, 60, state=b"T"),
        thread(1, 60, 120, ran_us=0, state=b"T"),
        thread(1, 120, 180, ran_us=10_000, state=b"S", call=230),
    ]
    assert activity(rows, 60, 170).stopped_us == pytest.approx(110_000)
    # What it sleeps in later is no stop.
    later = thread(1, 180, 240, ran_us=0, state=b"S", call=230)
    assert activity([*rows, later], 180, 240).stopped_us == 0


def test_what_looks_missed_of_the_time_off_the_core_was_spent_like_the_rest() -> None:
    seen = ThreadActivity(
        length_us=224_000,
        ran_us=120_000,
        waited_us=10_000,
        system_us=100_000,
        asleep_us={("S", 230): 90_000.0},
    )
    known = seen.counted(24_000, 200_000)
    assert (known.ran_us, known.system_us, known.waited_us) == (24_000, 24_000, 20_000)
    assert known.asleep_us == {("S", 230): 180_000.0}
    # Too little was seen of it.
    assert replace(seen, asleep_us={}).counted(24_000, 200_000).ran_us == 120_000


def test_a_call_that_hardly_ran_has_no_usual_waits_for_a_core() -> None:
    seen = ThreadActivity(length_us=30_000, ran_us=1_500, waited_us=0, usual_wait_us=28_500)
    known = seen.counted(ran_us=150, off_us=29_000)
    assert known.usual_wait_us == pytest.approx(2_900, rel=0.1)
    assert known.waited_us + known.usual_wait_us == pytest.approx(29_000)


def test_a_call_that_ran_no_longer_than_usual_has_no_further_usual_waits() -> None:
    seen = ThreadActivity(length_us=200_000, ran_us=20_000, waited_us=0, usual_wait_us=180_000)
    assert seen.counted(20_000, 180_000, usually_ran_us=20_000).waited_us == 180_000
    # Those of an ordinary call are expected of this one, too.
    known = seen.counted(20_000, 180_000, usually_ran_us=20_000, usually_off_us=50_000)
    assert (known.waited_us, known.usual_wait_us) == (130_000, 50_000)
    assert seen.counted(20_000, 180_000, usually_ran_us=1_000).usual_wait_us == pytest.approx(171_000)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 30)), max_size=30),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=12),
)
def test_slow_times_overlap_the_rows_that_any_of_them_overlaps(
    slow: list[tuple[int, int]], gaps_and_lengths: list[tuple[int, int]]
) -> None:
    rows, now_us = np.zeros(len(gaps_and_lengths), THREAD), 0
    for row, (gap_us, length_us) in zip(rows, gaps_and_lengths, strict=True):
        row["begin_us"], row["length_us"] = now_us + gap_us, length_us
        now_us += gap_us + length_us
    intervals = [(begin_us, begin_us + length_us) for begin_us, length_us in slow]
    plainly = np.zeros(len(rows), bool)
    for begin_us, end_us in intervals:
        plainly |= overlaps_us(rows, begin_us, end_us) > 0
    assert SlowTimes(intervals).overlap(rows).tolist() == plainly.tolist()


def test_what_a_look_after_a_call_finds_is_no_sleep_of_it() -> None:
    # Looks of 24 ms at a thread that naps between its calls, of which none lasts as long.
    rows = [thread(1, time, time + 24, ran_us=10_000, state=b"S", call=230) for time in (0, 24, 48)]
    assert activity(rows, 26, 31).asleep_us == {}
    # One in the call finds it asleep.
    assert activity(rows, 26, 60).asleep_us.keys() == {("S", 230)}
