"""What came to an agent by intervals, of which there are never many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from chimbuko.ad.agent.agenttelemetry import MOST_LOADS, Loads
from chimbuko.core.calls.record import StreamHealth


def health(steps: int, rows: int) -> list[StreamHealth]:
    return [StreamHealth(0, 0, "node1", "reading", steps, rows, 48 * rows, rows // 2, 0, 0, {})]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000)), max_size=100))
def test_there_are_few_and_they_are_everything(grown: list[tuple[int, int]]) -> None:
    loads, steps, rows = Loads(), 0, 0
    loads.add(0.0, 1.0, [])
    for number, (more_steps, more_rows) in enumerate(grown, start=1):
        steps, rows = steps + more_steps, rows + more_rows * (more_steps > 0)
        loads.add(float(number), 1.0 + number / 10, health(steps, rows))
    found = loads.intervals()
    assert len(found) <= MOST_LOADS
    assert (sum(one.steps for one in found), sum(one.rows for one in found)) == (steps, rows)
    assert sum(one.seconds for one in found) == sum(more > 0 for more, _ in grown)


def test_time_before_the_first_step_does_not_count() -> None:
    loads = Loads()
    loads.add(0.0, 1.5, [])
    loads.note_step(8.0, 20_000)
    loads.note_step(9.0, 40_000)
    loads.note_step(9.0, -7_000_000)
    loads.add(10.0, 1.7, health(2, 1000))
    (one,) = loads.intervals()
    assert (one.seconds, one.streams, one.steps, one.rows) == (2.0, 1, 2, 1000)
    assert (one.cpu_s, one.wait_s) == (approx(0.2), approx(0.03))
