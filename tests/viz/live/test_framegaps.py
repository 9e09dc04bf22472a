"""Gaps in frames, and who is asked to make up for them."""

from __future__ import annotations

import pytest

from chimbuko.runtime.protocol.messages import Frame
from chimbuko.viz.live.feedcore import FrameGaps


def frame(tick: int, part: int = 0, is_last: bool = False) -> Frame:
    return Frame(tick, [], [], [], [], is_last, part=part)


def taken(*ticks: int) -> FrameGaps:
    """The gaps after frames of one part, the first of which come one after the other."""
    gaps = FrameGaps()
    for tick in ticks:
        gaps.take(frame(tick))
    gaps.validate_state()
    return gaps


def test_a_missing_tick_is_noticed() -> None:
    gaps = taken(1, 2)
    assert gaps.ask() == ()
    assert gaps.take(frame(4)) and not gaps.take(frame(5))
    assert gaps.ask() == (0,)


def test_who_comes_late_knows_that_frames_are_missing() -> None:
    assert taken(5).ask() == (0,)


def test_each_part_of_the_server_counts_its_own_frames_and_has_its_own_last() -> None:
    gaps = FrameGaps(parts=2)
    for part, tick, is_last in ((0, 1, False), (1, 1, False), (0, 2, False), (0, 3, True), (1, 2, False)):
        assert not gaps.take(frame(tick, part, is_last))
        assert not gaps.is_last
    assert gaps.take(frame(4, 1, is_last=True))
    assert gaps.is_last and gaps.ask() == (1,)


def test_a_gap_is_asked_for_once() -> None:
    gaps = taken(1, 3)
    assert (gaps.ask(), gaps.ask(), gaps.asked()) == ((0,), (), (0,))
    gaps.take(frame(4))
    assert gaps.answer(0, 4)
    assert (gaps.ask(), gaps.asked()) == ((), ())


@pytest.mark.parametrize(("tick", "is_enough"), [(4, False), (5, True), (9, True)])
def test_an_answer_from_before_the_last_gap_is_asked_for_again(tick: int, is_enough: bool) -> None:
    gaps = taken(1, 3)
    gaps.ask()
    gaps.take(frame(6))
    assert gaps.ask() == (), "the answer may contain that, too"
    assert gaps.answer(0, tick) is is_enough
    assert gaps.ask() == (() if is_enough else (0,))
    gaps.validate_state()


def test_a_lost_broker_may_have_lost_what_it_was_told() -> None:
    gaps = taken(1, 3)
    assert gaps.forget_asking() == (), "nobody has been asked"
    gaps.ask()
    assert gaps.forget_asking() == (0,)
    assert gaps.ask() == (0,)


def test_a_server_that_starts_anew_knows_of_no_question() -> None:
    gaps = taken(1, 3, 4, 5)
    gaps.ask()
    assert gaps.take(frame(3))
    assert gaps.ask() == (0,)


def test_what_is_no_frame_may_have_been_one_of_any_part() -> None:
    gaps = FrameGaps(parts=3)
    gaps.take(frame(1, part=1))
    gaps.take_unknown()
    assert gaps.ask() == (0, 1, 2)
    assert gaps.answer(0, 0) and gaps.answer(1, 1)
    assert gaps.asked() == (2,)


def test_a_late_answer_changes_nothing() -> None:
    gaps = taken(1, 2)
    assert gaps.answer(0, 1)
    assert (gaps.ask(), gaps.asked()) == ((), ())
    gaps.validate_state()
