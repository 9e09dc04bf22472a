"""How fast a rank is: what its ordinary calls take, in the functions that take its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import (
    MOST_DESTINATIONS,
    MOST_FUNCTIONS,
    MOST_RANKS,
    MOST_ROWS,
    RankSpeeds,
    Traffic,
)
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from chimbuko.runtime.protocol.telemetry import OTHERS, PERIODS_PER_WINDOW
from tests.ad.tables import table_of
from tests.plainpython import examples
from tests.reference.telemetry import slow_sends

PERIOD_US = 1_000_000
WINDOW_US = PERIODS_PER_WINDOW * PERIOD_US
NAMES = StreamNames(
    timers={0: "main", 1: "solve", 2: "MPI_Wait", 3: "tiny"} | {n: f"f{n}" for n in range(4, 90)}
)
SEVERITY = PROFILE.slices["severity_us"].start


def learned(runtimes_us: dict[int, list[int]], severity_us: float = 0.0) -> Learned:
    """What calls of some functions teach, of which those of the first lost some time."""
    table = table_of(*runtimes_us.values())[:, : PROFILE.width]
    table[0, SEVERITY] = severity_us
    return Learned(np.array(list(runtimes_us)), table)


def paces_of(has_severity: bool = True) -> RankSpeeds:
    return RankSpeeds(1, 7, PROFILE, has_severity, PERIOD_US)


def test_windows_are_those_of_the_trace_clock() -> None:
    paces = paces_of()
    for period in range(2 * PERIODS_PER_WINDOW + 1):
        assert not len(paces.hand_out())
        paces.add(learned({0: [100], 1: [1000, 3000]}), WINDOW_US * 50 + period * PERIOD_US, NAMES)
        if period % PERIODS_PER_WINDOW == 0 and period:
            handed = paces.hand_out()
            number = 50 + period // PERIODS_PER_WINDOW - 1
            assert handed.tolist() == [(1, 7, number, 1, 20, 40_000.0), (1, 7, number, 0, 10, 1000.0)]
    paces.end_window(NAMES)
    assert paces.hand_out().tolist() == [(1, 7, 52, 1, 2, 4000.0), (1, 7, 52, 0, 1, 100.0)]


def test_functions_that_take_no_time_are_left_out_and_those_that_wait() -> None:
    paces = paces_of()
    paces.add(learned({1: [5000], 2: [90_000], 3: [10] * 90}), WINDOW_US, NAMES)
    paces.end_window(NAMES)
    assert paces.hand_out()["function"].tolist() == [1]


def test_a_function_whose_callees_are_left_out_at_times_says_nothing_of_its_rank() -> None:
    """What was known of it before, in the same window, neither."""
    paces = paces_of()
    for is_caller in ([], [0, 1], [0, 1, 0, 0, 0, 0]):
        paces.add(learned({1: [5000], 2: [10], 3: [4000]}), WINDOW_US, NAMES, np.array(is_caller, np.uint8))
    paces.end_window(NAMES)
    assert paces.hand_out()["function"].tolist() == [3]


def test_the_functions_that_take_the_most_time_are_reported() -> None:
    paces = paces_of()
    paces.add(learned({timer: [1000 + timer] for timer in range(4, 40)}), WINDOW_US, NAMES)
    paces.end_window(NAMES)
    assert paces.hand_out()["function"].tolist() == list(range(39, 39 - MOST_FUNCTIONS, -1))


@pytest.mark.parametrize(("has_severity", "time_us"), [(True, 2000.0), (False, 92_000.0)])
def test_what_abnormal_calls_lost_is_not_what_the_rank_is_slow_by(has_severity: bool, time_us: float) -> None:
    paces = paces_of(has_severity)
    paces.add(learned({1: [1000, 91_000]}, severity_us=90_000.0), WINDOW_US, NAMES)
    paces.end_window(NAMES)
    assert paces.hand_out()["time_us"].tolist() == [time_us]


def test_windows_that_nobody_takes_are_forgotten() -> None:
    paces = paces_of()
    for window in range(MOST_ROWS + 20):
        paces.add(learned({1: [1000]}), window * WINDOW_US, NAMES)
    assert paces.hand_out()["window"].tolist() == list(range(19, MOST_ROWS + 19))


RANK = 3
NO_EVENTS = np.empty((0, 6), np.uint64)

partner = st.one_of(st.integers(0, 5), st.sampled_from([MOST_RANKS - 1, MOST_RANKS, 1 << 63]))
row = st.tuples(
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([RANK, RANK, RANK, 4]),
    st.just(0),
    st.sampled_from([EventType.SEND, EventType.SEND, EventType.RECV, 9]),
    st.just(7),
    partner,
    st.one_of(st.integers(0, 1000), st.sampled_from([1 << 47, 1 << 48, (1 << 64) - 1])),
    st.just(1_000_000),
)


def step_of(rows: list[tuple[int, ...]], number: int = 0) -> TraceStep:
    comms = np.array(rows, np.uint64).reshape(-1, 8)
    return TraceStep(number, NO_EVENTS, comms, NO_EVENTS)


@pytest.mark.compiled
@examples(200)
@given(st.lists(st.tuples(st.lists(row, max_size=12), st.booleans(), st.booleans()), max_size=10))
def test_what_is_reported_is_what_was_sent_and_not_taken(sequence: list) -> None:
    """After some steps it is told; some of that is taken before the next step."""
    traffic, generation = Traffic(2, RANK), 0
    waiting: list[TraceStep] = []
    for rows, is_reported, is_taken in sequence:
        waiting.append(step_of(rows))
        traffic.read(waiting[-1], StreamNames())
        if not is_reported:
            continue
        reported = traffic.not_taken(generation)
        assert {(program, rank) for program, rank, *_ in reported.tolist()} <= {(2, RANK)}
        found = {to: [messages, size_bytes] for _, _, to, messages, size_bytes in reported.tolist()}
        assert len(found) == len(reported)
        assert found == slow_sends(waiting, RANK, EventType.SEND)
        if is_taken:
            generation += 1
            waiting.clear()


def test_the_stream_says_what_a_send_is() -> None:
    traffic = Traffic(0, RANK)
    traffic.read(step_of([(0, RANK, 0, 5, 7, 1, 8, 100)]), StreamNames(event_types={5: "SEND", 2: "RECV"}))
    assert traffic.not_taken(0)["messages"].tolist() == [1]


def test_what_has_no_room_is_added_up() -> None:
    traffic = Traffic(0, RANK)
    count = MOST_DESTINATIONS + 10
    traffic.read(step_of([(0, RANK, 0, EventType.SEND, 7, to, 8, 100) for to in range(count)]), StreamNames())
    rows = traffic.not_taken(0)
    assert len(rows) == MOST_DESTINATIONS
    assert rows[0].tolist() == (0, RANK, OTHERS, 11, 88)
    assert rows["messages"].sum() == count
    assert not len(traffic.not_taken(1))
