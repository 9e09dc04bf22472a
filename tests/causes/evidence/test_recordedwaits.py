"""Waits found in raw rows: which they are, and that their records say what the rows do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.flag import flag_of, may_matter
from chimbuko.causes.evidence.recordedcalls import MOST_CALLS, RecordedWaits
from chimbuko.core.calls.rawrows import RecordedStep
from chimbuko.core.calls.record import CallRecord, Collective, Message
from chimbuko.core.calls.schema import Label
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.traceschema import NO_PEER
from tests.causes.evidence.rows import (
    ALLREDUCE,
    ENTRY,
    EXIT,
    MAIN,
    MS,
    RECEIVED,
    RECV,
    RELAX,
    SYNC,
    Row,
    between,
    call,
    packed,
    rows_of,
    step,
)


def usual(count: int = 5) -> list[Row]:
    """Receives of 1 ms, one after the other."""
    return [row for n in range(count) for row in call(RECV, 2 * n * MS, (2 * n + 1) * MS)]


def found(*steps: RecordedStep, begin_ms: float = 100, end_ms: float = 180) -> list[CallRecord]:
    return RecordedWaits(rows_of(*steps)).during(between(begin_ms, end_ms, 5.0))


def test_a_record_says_what_the_rows_do() -> None:
    first = step(3, [*usual(), (20 * MS, ENTRY, RELAX)], opened=[(0, ENTRY, MAIN)])
    later = [*call(RELAX, 21 * MS, 22 * MS), *call(RECV, 105 * MS, 181 * MS), (190 * MS, EXIT, RELAX)]
    messages = np.array([(181 * MS, 2, 800, 7, RECEIVED << 48)], np.uint64).tobytes()
    entered = np.array([(106 * MS, 17 << 32, NO_PEER, 41, 8, 1 << 48)], np.uint64).tobytes()
    opened = packed([(0, ENTRY, MAIN), (20 * MS, ENTRY, RELAX)])
    second = RecordedStep(4, 21 * MS, 190 * MS, opened, packed(later), messages, b"", entered, is_whole=True)
    (record,) = found(first, second)
    assert (record.id, record.function, record.label) == ("0:5:4:2", "MPI_Recv()", Label.NORMAL)
    assert (record.entry_us, record.exit_us, record.step) == (105 * MS, 181 * MS, 4)
    assert (record.expected_us, record.severity_us, record.seen) == (1 * MS, 75 * MS, 5)
    # Of what was entered before the first row it is not known where that stands.
    assert [(frame.id, frame.function) for frame in record.call_stack] == [
        ("0:5:4:2", "MPI_Recv()"),
        ("0:5:3:10", "relax"),
        ("", "main"),
    ]
    assert record.messages == [Message("RECV", 2, 5, 7, 800, 181 * MS, record.id)]
    assert record.collectives == [Collective(17, 42, 5, 8, 106 * MS, record.id)]
    flag = flag_of(record)
    assert flag.is_wait and may_matter(flag)
    assert (flag.caller, flag.excess_us) == ("relax", 75 * MS)


def test_only_the_innermost_wait_is_meant() -> None:
    others = [
        row
        for n in range(3)
        for row in call(ALLREDUCE, n * MS, n * MS + 90, call(SYNC, n * MS + 10, n * MS + 80))
    ]
    (record,) = found(
        step(0, [*others, *call(ALLREDUCE, 100 * MS, 180 * MS, call(SYNC, 101 * MS, 179 * MS))])
    )
    assert record.function == "MPI Collective Sync"
    assert flag_of(record).operation == "MPI_Allreduce()"


def test_the_longest_few_are_taken() -> None:
    # From before, over the whole of it, and until after; and several threads at once.
    many = [packed(call(RECV, (90 + n) * MS, (150 + n) * MS), thread=n) for n in range(MOST_CALLS + 3)]
    events = packed(usual()) + b"".join(many)
    one = RecordedStep(0, 0, 200 * MS, b"", events, b"", b"", is_whole=True)
    assert len(found(one)) == MOST_CALLS


def test_what_is_not_known_is_not_made_up() -> None:
    wait = call(RECV, 105 * MS, 181 * MS)
    assert found(step(0, wait)) == [], "nothing to compare it with"
    assert found(step(0, [*usual(), *wait], is_whole=False)) == [], "where it stands in its step"
    assert found(step(0, [*usual(), wait[-1]], opened=[wait[0]])) == []
    assert found(step(0, [*usual(), wait[0]])) == [], "when it ends"
    assert found() == []
    gap = step(0, [*usual(), *call(RELAX, 20 * MS, 21 * MS), wait[0]]), step(2, [wait[1]])
    assert found(*gap) == [], "whether this is its end: a step is missing"


def test_waits_of_another_time_are_not_meant() -> None:
    rows = [
        *usual(),
        *call(RECV, 20 * MS, 101 * MS),
        *call(RECV, 175 * MS, 300 * MS),
        *call(RELAX, 310 * MS, 320 * MS),
    ]
    assert found(step(0, rows)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from([RELAX, RECV, ALLREDUCE]), st.integers(1, 40), st.integers(0, 3)),
        max_size=40,
    )
)
def test_found_is_what_overlaps_and_lasts(calls: list[tuple[int, int, int]]) -> None:
    rows, now_ms = usual(), 20
    expected = []
    for timer, length_ms, gap_ms in calls:
        begin, end = now_ms + gap_ms, now_ms + gap_ms + length_ms
        rows += call(timer, begin * MS, end * MS)
        together_ms = min(end, 180) - max(begin, 100)
        if timer == RECV and together_ms > 0:
            expected.append((length_ms - 1, begin, together_ms))
        now_ms = end
    records = found(step(0, rows))
    assert all(waits_in(record.function) is not Waits.NOT for record in records)
    assert len({record.id for record in records}) == len(records) <= MOST_CALLS
    received = {record.entry_us // MS: record for record in records if record.function == "MPI_Recv()"}
    # Others of its function are those of 1 ms, and those outside of the interval.
    for lost_ms, begin, together_ms in expected:
        if begin in received:
            assert received[begin].severity_us <= lost_ms * MS
            assert together_ms * MS >= 0.25 * received[begin].severity_us
