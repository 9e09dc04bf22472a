from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.provenance.alerts.calls import PERIOD_S, CallGate
from chimbuko.provenance.write.events import ExplainedCall
from chimbuko.provenance.write.severecalls import SevereCall


def call(row: int, function: str = "solve", severity_us: float = 5000.0) -> ExplainedCall:
    severe = SevereCall((0, 1, 3, row), function, 0, "node7", 3, 1, False, severity_us, 7.0)
    return ExplainedCall(severe, "", "")


def test_the_most_severe_of_those_that_come_together_passes_and_the_next_one_reports_of_the_others() -> None:
    gate = CallGate()
    ((first, suppressed),) = gate.passing([call(1), call(2, severity_us=9000.0), call(3)], 100.0)
    assert (first.call.id, suppressed) == ("0:1:3:2", 0)
    assert gate.passing([call(4)], 100.0 + PERIOD_S - 0.1) == []
    assert gate.passing([call(5)], 100.0 + PERIOD_S) == [(call(5), 3)]
    assert gate.passing([call(6)], 100.0 + 2 * PERIOD_S) == [(call(6), 0)]


def test_functions_do_not_hold_up_each_other() -> None:
    gate = CallGate()
    gate.passing([call(1)], 0.0)
    assert gate.passing([call(2), call(3, "write")], 1.0) == [(call(3, "write"), 0)]


arrivals = st.lists(
    st.tuples(st.floats(0, 8), st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=5)),
    max_size=20,
)


@given(arrivals)
def test_each_call_passes_or_is_counted_and_none_too_soon(arrivals: Sequence[Any]) -> None:
    gate, now_s, passed, came, row = CallGate(), 0.0, [], 0, 0
    for pause_s, calls in arrivals:
        now_s += pause_s
        made = []
        for function, severity in calls:
            row += 1
            made.append(call(row, function, severity))
        came += len(made)
        passed += [(now_s, one, suppressed) for one, suppressed in gate.passing(made, now_s)]
    for function in "ab":
        times = [at_s for at_s, one, _ in passed if one.call.function == function]
        assert all(later - sooner >= PERIOD_S for sooner, later in itertools.pairwise(times))
        closing = gate.passing([call(row + 1, function)], now_s + 2 * PERIOD_S)
        passed += [(now_s, one, suppressed) for one, suppressed in closing]
    assert sum(1 + suppressed for *_, suppressed in passed) == came + 2
