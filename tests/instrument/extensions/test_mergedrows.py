"""Rows of Python and of the recorder come in the order of time, whatever comes in which piece."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.instrument.extensions.joining import FOREIGN_THREADS, MergedRows, Renumbering, Source
from chimbuko.instrument.hooks.codes import FOUND
from chimbuko.instrument.recorder.layout import EVENT, Kind
from chimbuko.instrument.recorder.recording import NativeThreads
from chimbuko.instrument.tracer.chunks import ThreadRows

PID = 100


def rows(thread: int, *events: tuple[int, int], comms: tuple[int, ...] = ()) -> ThreadRows:
    """Rows of a thread: codes with their times, and one message."""
    return ThreadRows(
        thread,
        np.array(events, np.int64).tobytes(),
        np.array(comms, np.int64).tobytes(),
        b"",
        native_id=thread,
    )


def source(known: int = 1) -> Source:
    return Source(Renumbering(known, itertools.count(known)), Renumbering(1, itertools.count(1)))


def events(taken: list[ThreadRows]) -> dict[int, list[tuple[int, int]]]:
    found = {}
    for one in taken:
        table = np.frombuffer(one.events, np.int64).reshape(-1, 2)
        found[one.thread] = [(code, time) for code, time in table.tolist()]
    return found


def test_calls_of_the_recorder_stand_inside_those_of_python() -> None:
    merged, both = MergedRows(PID), source(known=10)
    merged.add_python(0, 0, both.arrays(rows(0, (2, 10), (3, 40), (4, 60))))
    merged.add_native(PID, both.arrays(rows(PID, (6, 20), (7, 30), (6, 50))))
    assert events(merged.take(45)) == {0: [(2, 10), (6, 20), (7, 30), (3, 40)]}
    assert merged.count == 1
    assert events(merged.take(100)) == {0: [(6, 50), (4, 60)]}
    assert merged.take(1000) == []


def test_thread_is_known_by_rows_of_python_that_come_later() -> None:
    merged, both = MergedRows(PID), source(known=10)
    merged.add_native(101, both.arrays(rows(101, (6, 20))))
    merged.add_native(102, both.arrays(rows(102, (8, 20))))
    assert merged.take(10) == []
    merged.add_python(3, 101, both.arrays(rows(3, (2, 15))))
    assert events(merged.take(30)) == {3: [(2, 15), (6, 20)], FOREIGN_THREADS: [(8, 20)]}


def test_handler_of_a_signal_stays_before_the_call_that_it_interrupts() -> None:
    merged, both = MergedRows(PID), source(known=10)
    merged.add_python(0, 0, both.arrays(rows(0, (2, 10), (4, 30), (5, 35), (6, 20))))
    merged.add_native(PID, both.arrays(rows(PID, (8, 40))))
    assert events(merged.take(50)) == {0: [(2, 10), (4, 30), (5, 35), (6, 35), (8, 40)]}


def test_messages_without_details_have_zeros() -> None:
    taken = MergedRows(PID)
    taken.add_python(0, 0, source().arrays(rows(0, comms=(2, 7, 1, 8, 10))))
    (one,) = taken.take(20)
    assert np.frombuffer(one.comms, np.int64).tolist() == [2, 7, 1, 8, 10]
    assert np.frombuffer(one.details, np.int64).tolist() == [0, 0]


@given(
    times=st.lists(st.integers(0, 1000), min_size=1, max_size=60, unique=True),
    belongs=st.lists(st.booleans(), min_size=60, max_size=60),
    cuts=st.lists(st.integers(0, 1000), max_size=5),
)
def test_all_rows_come_once_and_in_order(times: list[int], belongs: list[bool], cuts: list[int]) -> None:
    merged, both = MergedRows(PID), source(known=2000)
    given_events = [(2 * time, time) for time in sorted(times)]
    found: list[tuple[int, int]] = []
    before = 0
    for cut in [*sorted(cuts), 2000]:
        # What is later than the cut may be there already.
        fresh = [event for event in given_events if before <= event[1] < cut + 100]
        before = max(before, cut + 100)
        parts = {
            is_python: [event for event in fresh if belongs[given_events.index(event)] is is_python]
            for is_python in (True, False)
        }
        merged.add_python(0, 0, both.arrays(rows(0, *parts[True])))
        merged.add_native(PID, both.arrays(rows(PID, *parts[False])))
        found += [event for taken in events(merged.take(cut)).values() for event in taken]
    assert found == given_events


def test_names_of_both_have_numbers_of_their_own() -> None:
    fresh = itertools.count(3)
    python, native = Renumbering(3, fresh), Renumbering(1, fresh)
    assert python.names({1: "a", 2: "b"}) == {1: "a", 2: "b"}
    assert native.names({1: "MPI_Send()"}) == {3: "MPI_Send()"}
    assert python.names({3: "c"}) == {4: "c"}
    assert native.of(np.array([1, 2])).tolist() == [3, 5]
    assert python.of(np.array([], np.int64)).tolist() == []


def test_codes_that_are_no_calls_stay() -> None:
    table = source(known=10).arrays(rows(0, (FOUND - 1, 5), (2, 5)))[0]
    assert table.tolist() == [[FOUND - 1, 5], [2, 5]]


def test_ring_that_another_thread_takes_over_is_divided() -> None:
    table = np.zeros(4, EVENT)
    table["kind"] = Kind.ENTRY, Kind.EXIT, Kind.LANE, Kind.ENTRY
    table["value"] = 5, 5, 102, 6
    threads = NativeThreads(101)
    assert [(thread, part["value"].tolist()) for thread, part in threads.split(table)] == [
        (101, [5, 5]),
        (102, [6]),
    ]
    assert [thread for thread, _ in threads.split(table[:2])] == [102]
