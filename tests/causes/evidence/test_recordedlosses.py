"""Losses found in raw rows: the call in which a rank lost time by itself, and never another one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.flag import flag_of, may_matter
from chimbuko.causes.evidence.recordedcalls import LEAST_COMPARABLE, RecordedLosses
from chimbuko.core.calls.rawrows import RecordedStep
from chimbuko.core.calls.record import CallRecord, Collective
from chimbuko.core.calls.schema import Label
from chimbuko.core.traceschema import NO_PEER
from tests.causes.evidence.rows import (
    ALLREDUCE,
    ENTRY,
    EXIT,
    MAIN,
    MS,
    RECV,
    RELAX,
    SWEEP,
    TIMERS,
    Row,
    between,
    call,
    packed,
    rows_of,
    step,
)


def found(*steps: RecordedStep, begin_ms: float = 100, end_ms: float = 180) -> CallRecord | None:
    return RecordedLosses(rows_of(*steps)).during(between(begin_ms, end_ms, 4.0, 40.0))


def usual(count: int = 5) -> list[Row]:
    """Calls of relax with 1 ms of their own and 1 ms in another one, and of receives."""
    rows: list[Row] = []
    for n in range(count):
        begin = 5 * n * MS
        rows += call(RELAX, begin, begin + 2 * MS, call(SWEEP, begin + MS, begin + 2 * MS))
        rows += call(RECV, begin + 3 * MS, begin + 4 * MS)
    return rows


def test_a_record_says_what_the_rows_do() -> None:
    first = step(3, [*usual(), (60 * MS, ENTRY, RELAX)], opened=[(0, ENTRY, MAIN)])
    inside = call(SWEEP, 170 * MS, 171 * MS)
    later = [*inside, (176 * MS, EXIT, RELAX), *call(ALLREDUCE, 177 * MS, 179 * MS), (200 * MS, EXIT, MAIN)]
    entered = np.array([(178 * MS, 17 << 32, NO_PEER, 41, 8, 1 << 48)], np.uint64).tobytes()
    opened = packed([(0, ENTRY, MAIN), (60 * MS, ENTRY, RELAX)])
    second = RecordedStep(4, 170 * MS, 200 * MS, opened, packed(later), b"", b"", entered, is_whole=True)
    record = found(first, second)
    assert record is not None
    assert (record.id, record.function, record.label, record.revision) == (
        *("0:5:3:30", "relax", Label.NORMAL),
        0,
    )
    assert (record.entry_us, record.exit_us, record.step) == (60 * MS, 176 * MS, 4)
    assert (record.inclusive_us, record.exclusive_us, record.children) == (116 * MS, 115 * MS, 1)
    assert (record.expected_us, record.severity_us, record.seen) == (1 * MS, 114 * MS, 5)
    assert [(frame.id, frame.function) for frame in record.call_stack] == [
        ("0:5:3:30", "relax"),
        ("", "main"),
    ]
    # When it came to what others wait in, which is behind the call.
    assert record.collectives == [Collective(17, 42, 5, 8, 178 * MS, "")]
    flag = flag_of(record)
    assert may_matter(flag) and not flag.is_flagged and flag.is_exclusive
    assert (flag.lost_from_us, flag.lost_to_us, flag.excess_us) == (60 * MS, 170 * MS, 114 * MS)


def test_who_lost_nothing_by_itself_is_no_origin() -> None:
    in_time = [row for n in range(20, 40) for row in call(RELAX, 5 * n * MS, (5 * n + 2) * MS)]
    assert found(step(0, [*usual(), *in_time])) is None
    waited = call(RELAX, 100 * MS, 181 * MS, call(RECV, 101 * MS, 180 * MS))
    assert found(step(0, [*usual(), *waited])) is None, "it waited itself"
    inside = call(RELAX, 100 * MS, 181 * MS, call(SWEEP, 101 * MS, 180 * MS))
    lost = found(step(0, [*usual(), *inside]))
    assert lost is not None and lost.function == "sweep", "in the call where the time went"
    alike = [row for n in range(6) for row in call(RELAX, 1000 * n * MS, (1000 * n + 80) * MS)]
    assert found(step(0, [*alike, *call(RECV, 6000 * MS, 6001 * MS)]), begin_ms=3000, end_ms=3080) is None


def test_only_calls_with_the_same_caller_are_compared() -> None:
    long = call(RELAX, 95 * MS, 175 * MS)
    under = [row for n in range(5) for row in call(MAIN, 5 * n * MS, (5 * n + 4) * MS, call(RELAX, *_in(n)))]
    assert found(step(0, [*under, *long, *call(RECV, 190 * MS, 191 * MS)])) is None
    others = [row for n in range(LEAST_COMPARABLE - 1) for row in call(RELAX, 50 * MS + n, 50 * MS + n + 1)]
    assert found(step(0, [*others, *long, *call(RECV, 190 * MS, 191 * MS)])) is None
    assert found(step(0, [*usual(), *long])) is not None


def _in(n: int) -> tuple[int, int]:
    return (5 * n + 1) * MS, (5 * n + 2) * MS


def test_threads_that_do_not_communicate_are_no_reason() -> None:
    busy = packed([*usual(), *call(RELAX, 95 * MS, 175 * MS)])
    alone = packed([row for row in (*usual(), *call(RELAX, 95 * MS, 175 * MS)) if row[2] != RECV], thread=3)
    together = RecordedStep(0, 0, 200 * MS, b"", packed(usual()) + alone, b"", b"", is_whole=True)
    assert found(together) is None
    assert found(RecordedStep(0, 0, 200 * MS, b"", busy + alone, b"", b"", is_whole=True)) is not None


def test_what_is_not_known_is_not_made_up() -> None:
    long = call(RELAX, 95 * MS, 175 * MS)
    assert found() is None
    assert found(step(0, long)) is None, "nothing to compare it with"
    assert found(step(0, [*usual(), *long], is_whole=False)) is None, "where it stands in its step"
    assert found(step(0, [*usual(), long[0]])) is None, "when it ends"
    assert found(step(0, [*usual(), long[1]], opened=[long[0]])) is None, "its place"
    assert found(step(0, [*usual(), long[0]]), step(2, [long[1]])) is None, "whether this is its end"
    assert found(step(0, [*usual(), long[0]]), step(1, [long[1]])) is not None


@dataclass
class Open:
    """A call of the twin that goes on."""

    timer: int
    begin_us: int
    own: list[tuple[int, int]] = field(default_factory=list)
    since_us: int = 0


def losses(rows: list[Row], begin_us: int, end_us: int) -> list[tuple[float, int, int]]:
    """The slow and obvious twin: what calls lost in the interval, with timer and entry of each."""
    stack: list[Open] = []
    done: list[tuple[int, int, int, int, int, int]] = []
    for time_us, kind, timer in rows:
        if stack:
            stack[-1].own.append((stack[-1].since_us, time_us))
        if kind == ENTRY:
            stack.append(Open(timer, time_us))
        else:
            one = stack.pop()
            own_us = sum(end - begin for begin, end in one.own)
            in_it_us = sum(max(0, min(end, end_us) - max(begin, begin_us)) for begin, end in one.own)
            caller = stack[-1].timer if stack else -1
            done.append((timer, caller, one.begin_us, time_us, own_us, in_it_us))
        if stack:
            stack[-1].since_us = time_us
    found = []
    for timer, caller, begin, _, own_us, in_it_us in done:
        others = [
            other[4]
            for other in done
            if other[:2] == (timer, caller) and (other[2] >= end_us or other[3] <= begin_us)
        ]
        if timer != RECV and len(others) >= LEAST_COMPARABLE:
            lost_us = min(float(own_us - np.median(others)), in_it_us)
            if lost_us >= 40.0 * MS:
                found.append((lost_us, timer, begin))
    return found


@st.composite
def nested(draw: st.DrawFn) -> list[Row]:
    """Rows of one thread in which calls of all kinds lie inside of each other."""
    rows: list[Row] = [*usual(), *call(RECV, 30 * MS, 31 * MS)]
    now_us, stack = 40 * MS, list[int]()
    for _ in range(draw(st.integers(0, 40))):
        now_us += draw(st.integers(0, 60)) * MS
        if stack and draw(st.booleans()):
            rows.append((now_us, EXIT, stack.pop()))
        else:
            stack.append(draw(st.sampled_from([MAIN, RELAX, RECV, SWEEP])))
            rows.append((now_us, ENTRY, stack[-1]))
    for timer in reversed(stack):
        now_us += MS
        rows.append((now_us, EXIT, timer))
    return rows


@given(nested(), st.integers(1, 5))
def test_found_is_the_call_that_lost_most(rows: list[Row], pieces: int) -> None:
    begin_ms, end_ms = 100, 180
    expected = losses(rows, begin_ms * MS, end_ms * MS)
    size = -(-len(rows) // pieces)
    steps = [step(n, rows[n * size : (n + 1) * size]) for n in range(pieces) if rows[n * size :]]
    record = found(*steps, begin_ms=begin_ms, end_ms=end_ms)
    if record is None:
        assert not expected
    else:
        most_us = max(lost_us for lost_us, *_ in expected)
        assert (most_us, record.function, record.entry_us) in {
            (lost_us, TIMERS[timer], begin) for lost_us, timer, begin in expected
        }
