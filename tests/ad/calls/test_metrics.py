"""Metrics: which counters are, and what they rose by in each call."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.calls.counters import Counters
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.plainpython import examples
from tests.reference.metrics import Rises, slow_rises
from tests.reference.traces import RANK, START_US, MadeTrace, damaged_traces, made_names, traces

EXAMPLES = examples(80)
CPU_TIME, MISSES, EVENTS = 5, 7, 1


def names_with_metrics() -> StreamNames:
    names = made_names()
    names.counters |= {CPU_TIME: "CPU_TIME", MISSES: "PAPI_L1_DCM"}
    return names


def with_metrics(trace: MadeTrace, rises: list[int]) -> MadeTrace:
    """With a row of each metric at every EXIT, as TAU writes them."""
    totals: dict[int, int] = {}
    number = 0
    for events, counters in zip(trace.events, trace.counters, strict=True):
        rows = []
        for _, _, thread, kind, _, time in events:
            if kind == 1:
                totals[thread] = totals.get(thread, 100 * thread) + rises[number % len(rises)]
                rows += [
                    # A thread whose number is absurd begins with an absurd value; columns hold 64 bits.
                    [0, RANK, thread, metric, metric * totals[thread] % (1 << 64), time]
                    for metric in (CPU_TIME, MISSES)
                ]
                number += 1
        counters += rows
        counters.sort(key=lambda row: (row[5], row))
    return trace


def measured(steps: list[TraceStep], names: StreamNames) -> tuple[Rises, Counters, list[list[int]]]:
    """Rises of all calls, and the counters that the calls of each step are left with."""
    stacks, counters = CallStacks(RANK), Counters(RANK, ())
    found: Rises = {}
    attached = []
    for step in steps:
        stacks.build(step, names)
        rows = np.flatnonzero(stacks.calls["exit"][: stacks.count]).astype(np.int32)
        found_in_step = counters.step(step, names, stacks, rows)
        metrics = found_in_step.metrics
        assert metrics.counts.sum() == len(metrics.rows)
        for value in metrics.rows:
            found.setdefault((int(value.step), int(value.row)), {})[int(value.counter)] = int(value.value)
        attached.append(step.counters[found_in_step.owners != NONE, 3].tolist())
    return found, counters, attached


def warm_up(calls: int = 12) -> MadeTrace:
    """Enough calls of one thread to recognise a metric by."""
    rows = []
    for call in range(calls):
        rows.append([0, RANK, 0, 0, 1, START_US - 1000 + 10 * call])
        rows.append([0, RANK, 0, 1, 1, START_US - 1000 + 10 * call + 5])
    return MadeTrace([rows], [[]], [[]], [0])


def joined(first: MadeTrace, second: MadeTrace) -> MadeTrace:
    return MadeTrace(
        first.events + second.events,
        first.comms + second.comms,
        first.counters + second.counters,
        list(range(len(first.numbers) + len(second.numbers))),
    )


@EXAMPLES
@given(traces(threads=3), st.lists(st.integers(0, 50), min_size=1, max_size=10))
def test_calls_are_reported_what_their_metrics_rose_by(trace: MadeTrace, rises: list[int]) -> None:
    steps = with_metrics(joined(warm_up(), trace), rises).steps()
    found, _, attached = measured(steps, names_with_metrics())
    assert found == slow_rises(RANK, steps, names_with_metrics(), [CPU_TIME, MISSES])
    assert {counter for counters in attached for counter in counters} <= {0, EVENTS}


@EXAMPLES
@given(damaged_traces(), st.lists(st.integers(0, 50), min_size=1, max_size=10))
def test_damaged_streams_have_no_absurd_rises(trace: MadeTrace, rises: list[int]) -> None:
    steps = joined(with_metrics(warm_up(), rises), trace).steps()
    found, _, _ = measured(steps, names_with_metrics())
    assert all(
        rise <= MISSES * sum(rises) * 12 for by_metric in found.values() for rise in by_metric.values()
    )


def test_metrics_are_recognised_in_the_first_step_with_enough_calls() -> None:
    trace = with_metrics(joined(warm_up(4), warm_up(12)), [3])
    _, _, attached = measured(trace.steps(), names_with_metrics())
    assert [set(counters) for counters in attached] == [{CPU_TIME, MISSES}, set()]


def test_counters_that_do_not_match_the_exits_are_no_metrics() -> None:
    """One row too few, one that falls, and one of a thread without calls."""
    for change in ("missing", "falling", "elsewhere"):
        trace = with_metrics(warm_up(30), [3])
        rows = [row for row in trace.counters[0] if row[3] == CPU_TIME]
        if change == "missing":
            del rows[4:6]
        elif change == "falling":
            rows[7][4] = 0
        else:
            rows[7][2] = 9
        trace.counters[0] = rows
        found, counters, attached = measured(joined(trace, warm_up()).steps(), names_with_metrics())
        assert not found and set(attached[0]) == {CPU_TIME}
        assert {one.name: one.n for one in counters.statistics()}["CPU_TIME"] == len(rows)


def test_statistics_of_a_metric_are_those_of_its_rises() -> None:
    trace = with_metrics(warm_up(30), [3, 5])
    _, counters, _ = measured(trace.steps(), names_with_metrics())
    (found,) = [one for one in counters.statistics() if one.name == "CPU_TIME"]
    exact = Moments.of([CPU_TIME * rise for rise in [5, 3] * 14 + [5]])
    assert (found.n, found.mean, found.minimum, found.maximum) == (exact.n, exact.mean, 15.0, 25.0)


def test_what_was_counted_in_a_gap_belongs_to_no_call() -> None:
    trace = with_metrics(joined(warm_up(), warm_up(3)), [7])
    trace.numbers[1] = 5
    found, _, _ = measured(trace.steps(), names_with_metrics())
    # The first EXIT after the gap is what the second call is measured from.
    assert sorted(call[1] for call in found if call[0] == 5) == [2, 4]
