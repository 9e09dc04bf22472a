"""Lines of PerfFlowAspect's trace files."""

from __future__ import annotations

import json
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.instrument.annotations.eventfile import head, lines

TIMES_NS = st.integers(1_000, 1 << 62)
LENGTHS_NS = st.one_of(st.integers(0, 2_000), st.integers(0, 1 << 50))


@given(st.text(max_size=10), TIMES_NS, st.integers(-1_000, 1 << 40), LENGTHS_NS, st.integers(1, 1 << 22))
def test_times_are_exact_to_the_nanosecond(
    name: str, time_ns: int, offset_ns: int, length_ns: int, thread: int
) -> None:
    """Also of calls below 1 µs, whose digits are fewer than the point needs."""
    events = [
        (head(name, "m", "X"), thread, time_ns + 1_000, length_ns),
        (head(name, "m", "B"), 1, 9_000, ""),
    ]
    call, begin = (json.loads(line, parse_float=Fraction) for line in lines(events, 7, offset_ns))
    assert (call["name"], call["ph"], call["pid"], call["tid"]) == (name, "X", 7, thread)
    assert 1000 * call["ts"] == time_ns + 1_000 + offset_ns
    assert 1000 * call["dur"] == length_ns
    assert "dur" not in begin
    assert 1000 * begin["ts"] == 9_000 + offset_ns
