"""The index of flags by time gives what plain comparison gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.flag import FlagIndex
from tests.causes.flagged import at, flag

INTERVALS = st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda pair: (pair[0], sum(pair)))


@given(st.lists(INTERVALS, max_size=20), st.sets(st.integers(0, 19)), INTERVALS)
def test_during_gives_those_that_lost_time_then(
    intervals: list[tuple[int, int]], removed: set[int], asked: tuple[int, int]
) -> None:
    flags = [flag("f", 0, begin, end, row=row + 1) for row, (begin, end) in enumerate(intervals)]
    index = FlagIndex()
    for one in flags:
        index.add(one)
    left = [one for number, one in enumerate(flags) if number not in removed]
    for number in removed & set(range(len(flags))):
        index.discard(flags[number])
    begin_us, end_us = at(asked[0]), at(asked[1])
    wanted = {one.id for one in left if one.lost_from_us < end_us and one.lost_to_us > begin_us}
    assert {one.id for one in index.during(begin_us, end_us)} == wanted
    assert len(index) == len(left)
