"""Call data is complete where as many calls were analysed as their sources saw, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.census import (
    AT_THE_END,
    IN_BAD_ROWS,
    IN_LOST_STEPS,
    LOST_EXIT,
    MOST_RANKS,
    TOO_DEEP,
    TOO_MANY,
    UNEXPLAINED,
    Verdict,
    census_of,
    share_of,
)
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.sourcecensus import LEFT_OUT, SourceCensus

NO_ROOM = "without room in the buffer of a thread"


def stream(
    rank: int = 0, seen: int | None = None, unwritten: dict[str, int] | None = None, **more: Any
) -> Any:
    """Totals of a stream of which 100 calls were analysed."""
    usual = {"node": "n", "state": "ended", "steps": 1, "rows": 200, "size_bytes": 1, "calls": 100}
    source = None if seen is None else SourceCensus("the recorder", seen, unwritten or {})
    fields = usual | {"anomalies": 0, "gap_steps": 0, "losses": {}, "source": source} | more
    return StreamHealth(program=0, rank=rank, **fields)


def test_calls_that_are_left_out_on_purpose_are_not_missing() -> None:
    census = census_of([stream(seen=1_000, unwritten={LEFT_OUT: 900})])
    assert (census.verdict, census.left_out, census.missing) == (Verdict.COMPLETE, 900, 0)
    assert census.sentence == (
        "complete; 900 of 1,000 calls (90 %) were left out on purpose, as recording them would cost too much"
    )
    census = census_of([stream(seen=1_000, unwritten={LEFT_OUT: 890, NO_ROOM: 10})])
    assert (census.verdict, census.differences) == (Verdict.INCOMPLETE, {NO_ROOM: 10})


@pytest.mark.parametrize(
    ("one", "verdict", "differences"),
    [
        (stream(seen=100), Verdict.COMPLETE, {}),
        (stream(seen=103, open_calls=3), Verdict.COMPLETE, {}),
        (stream(), Verdict.NO_LOSS_KNOWN, {}),
        (stream(rows=0), Verdict.UNKNOWN, {}),
        (stream(seen=130, unwritten={NO_ROOM: 30}), Verdict.INCOMPLETE, {NO_ROOM: 30}),
        (stream(seen=130, gap_steps=2), Verdict.INCOMPLETE, {IN_LOST_STEPS: 30}),
        (stream(seen=130, state="broken"), Verdict.INCOMPLETE, {AT_THE_END: 30}),
        (stream(seen=130, state="lost"), Verdict.INCOMPLETE, {AT_THE_END: 30}),
        (stream(seen=130, losses={"rows with an absurd thread": 9}), Verdict.INCOMPLETE, {IN_BAD_ROWS: 30}),
        (stream(seen=130), Verdict.INCOMPLETE, {UNEXPLAINED: 30}),
        (stream(seen=70), Verdict.INCOMPLETE, {TOO_MANY: 30}),
        # Not a call is missing of which an EXIT is, and none of a stream of which the end alone is.
        (stream(seen=105, losses={LOST_EXIT: 5}), Verdict.INCOMPLETE, {}),
        (stream(seen=105, losses={LOST_EXIT: 2, TOO_DEEP: 3}), Verdict.INCOMPLETE, {}),
        (stream(seen=100, state="broken"), Verdict.COMPLETE, {}),
        (stream(state="broken"), Verdict.INCOMPLETE, {}),
    ],
)
def test_each_difference_has_its_reason(one: Any, verdict: Verdict, differences: dict[str, int]) -> None:
    census = census_of([one])
    assert (census.verdict, census.differences) == (verdict, differences)
    assert census.missing == sum(differences.values())


def test_the_words_are_those_of_the_verdict() -> None:
    found = [census_of(streams).sentence for streams in ([stream(seen=100)], [stream(), stream(1, 100)], [])]
    assert found == [
        "complete",
        "no loss known, but what recorded 1 rank does not say how many calls it saw",
        "unknown, as how much was recorded is not on record",
    ]
    assert census_of([stream(seen=400), stream(1, 100)]).sentence == (
        "incomplete, 300 of 500 calls (60 %) are missing"
    )
    assert [share_of(1, 1000), share_of(999, 1000), share_of(1000, 1000)] == [
        "1 of 1,000 calls (0.10 %)",
        "999 of 1,000 calls (99.90 %)",
        "1,000 of 1,000 calls (100 %)",
    ]


def test_what_was_left_out_is_said_as_far_as_it_is_known() -> None:
    counted = stream(seen=400, unwritten={LEFT_OUT: 300})
    assert census_of([counted]).sentence == (
        "complete; 300 of 400 calls (75 %) were left out on purpose, as recording them would cost too much"
    )
    partly = stream(1, source=SourceCensus("the recorder", 400, {LEFT_OUT: 300}, 2))
    assert census_of([counted, partly]).sentence == (
        "complete; at least 600 calls were left out on purpose, as recording them would cost too much; "
        "those of 2 functions are not all counted"
    )


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 50)), min_size=1, max_size=2 * MOST_RANKS))
def test_what_is_analysed_and_what_is_missing_is_all_that_was_seen(ranks: list[tuple[int, int]]) -> None:
    census = census_of(
        stream(rank, calls + unwritten, {NO_ROOM: unwritten}, calls=calls)
        for rank, (calls, unwritten) in enumerate(ranks)
    )
    assert census.analysed + census.missing == census.seen
    assert census.counted == len(ranks) and len(census.ranks) == min(len(ranks), MOST_RANKS)
    missing = [sum(one.differences.values()) for one in census.ranks]
    assert missing == sorted(missing, reverse=True)
