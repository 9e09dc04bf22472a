"""What a rank sends: every message counts, whoever it is for, and damage in the trace does no harm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamtelemetry import MOST_DESTINATIONS, MOST_RANKS, Traffic
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from chimbuko.runtime.protocol.telemetry import OTHERS
from tests.plainpython import examples
from tests.reference.telemetry import slow_sends

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
