"""Threads that come last to a barrier again and again, by the events of their rings."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.core.statistics.latethreads import LateThread, decode_late_threads, encode_late_threads
from chimbuko.instrument.recorder.layout import (
    CONSTRUCT_SHIFT,
    CONSTRUCTS,
    EVENT,
    OPENMP,
    OPENMP_COMMUNICATOR,
    Kind,
)
from chimbuko.instrument.recorder.ring import Events
from chimbuko.instrument.recorder.threadbalance import ThreadBalance

MS = 1_000_000
STEP = 10 * MS


def key(construct: str) -> int:
    return OPENMP | CONSTRUCTS.index(construct) << CONSTRUCT_SHIFT | 0x4711


def of_thread(first: int, worked_ms: list[float]) -> Events:
    """A region for each time that a thread works."""
    rows = []
    for number, ms in enumerate(worked_ms, first):
        begin, came = number * STEP, number * STEP + int(ms * MS)
        rows += [
            (begin, Kind.ENTRY, 0, 0, 0, key("parallel"), 0, 0),
            (came, Kind.EXIT, 0, 0, 0, key("parallel"), 0, 0),
            (came, Kind.ENTRY, 0, 0, 0, key("barrier"), 0, 0),
            (came, Kind.OPERATION, 1, OPENMP_COMMUNICATOR, -1, 0, number, 0),
            (begin + 5 * MS, Kind.EXIT, 0, 0, 0, key("barrier"), 0, 0),
        ]
    return np.array(rows, EVENT)


def found(worked_ms: dict[int, list[float]], piece: int) -> list[LateThread]:
    """What is told where the events of each thread come piece by piece, and those of one a take later."""
    balance = ThreadBalance()
    events = {thread: of_thread(1, of) for thread, of in worked_ms.items()}
    length = max(len(of) for of in events.values())
    for begin in range(0, length + piece, piece):
        for thread, of in events.items():
            late = piece if thread == 1 else 0
            balance.note(thread, of[max(0, begin - late) : max(0, begin - late + piece)])
        balance.close()
    return balance.late_threads(hex)


@pytest.mark.parametrize("piece", [7, 50, 10_000])
def test_a_slow_thread_is_told_however_its_events_come(piece: int) -> None:
    times = {0: [2.0] * 40, 1: [2.1] * 40, 2: [1.9] * 40, 3: [2.8] * 34 + [1.0] * 6}
    (one,) = found(times, piece)
    assert (one.thread, one.threads, one.regions, one.barrier) == (3, 4, 40, hex(key("barrier")))
    assert (one.share, round(one.ratio, 2)) == (0.85, 1.4)
    assert round(one.lost_us) == (34 * 3 * 800)
    assert decode_late_threads(encode_late_threads([one])) == [one]


def test_what_the_master_does_before_its_part_begins_is_no_work() -> None:
    balance = ThreadBalance()
    for thread in range(3):
        events = of_thread(1, [4.0 if thread == 0 else 1.0] * 40)
        if thread == 0:
            came = events["kind"] == Kind.OPERATION
            events["value"][came] = events["time_ns"][came] - MS
        balance.note(thread, events)
    assert balance.late_threads(hex) == []


def test_what_is_no_imbalance() -> None:
    assert found({0: [2.0] * 40, 1: [2.2] * 40}, 50) == [], "a tenth"
    assert found({0: [2.0] * 10, 1: [4.0] * 10}, 50) == [], "too few regions"
    assert found({0: [1.0, 3.0] * 20, 1: [3.0, 1.0] * 20}, 50) == [], "now this one, and now that one"
    assert found({0: [4.0] * 40}, 50) == [], "alone"
    assert decode_late_threads("damaged") == []
