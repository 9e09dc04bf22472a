"""Spans out of samples, and how they add up."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.monitor.procfs.system import CoreTicks
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.sample import ThreadCounters
from chimbuko.monitor.sampling.span import MOST_ENDED, TICKS_PER_S, ProcessSpan
from tests.monitor.sampling.made import COUNTERS, sample, span, thread


def test_shares_are_of_the_time_that_has_really_passed() -> None:
    """ZeroSum's are ticks per sample, whatever the period was."""
    later = COUNTERS._replace(user_ticks=100 + TICKS_PER_S, ran_ns=2 * 10**9, waited_ns=10**9, processor=0)
    found = difference(sample(1, COUNTERS), sample(3, later)).threads[10]
    assert found.seconds == 2.0
    assert (found.user_s, found.system_s, found.busy_share) == (1.0, 0.0, 0.5)
    assert found.waited_share == 0.5
    assert (found.migrations, found.cpus, found.kind) == (1, (0, 1), "Main")


def test_a_thread_that_began_meanwhile_counts_from_its_beginning() -> None:
    new = COUNTERS._replace(start_ticks=100)
    found = difference(sample(1), sample(2, new)).threads[10]
    assert (found.seconds, found.user_s, found.voluntary) == (1.0, 100 / TICKS_PER_S, 7)


def test_what_a_thread_did_before_it_was_watched_does_not_count() -> None:
    found = difference(sample(1), sample(2, COUNTERS)).threads[10]
    assert (found.seconds, found.user_s, found.voluntary, found.waited_s) == (0.0, 0.0, 0, 0.0)


def test_a_number_that_is_used_again_is_another_thread() -> None:
    again = COUNTERS._replace(start_ticks=900, user_ticks=4, ran_ns=10)
    assert difference(sample(1, COUNTERS), sample(2, again)).threads[10].user_s == 4 / TICKS_PER_S


def test_time_of_guests_and_counters_that_fall() -> None:
    before = {0: CoreTicks(100, 0, 10, 500, 50, 0, 0, 0, 40, 0)}
    now = {0: CoreTicks(160, 0, 30, 500, 40, 5, 5, 10, 60, 0), 1: CoreTicks(*[0] * 10)}
    found = difference(sample(1, cores=before), sample(2, cores=now)).cores
    assert set(found) == {0}
    details = {name: round(seconds * TICKS_PER_S) for name, seconds in found[0].details.items()}
    assert details["user"] == 40
    assert details["guest"] == 20
    assert details["system_all"] == 30
    assert details["idle_all"] == 0
    assert details["total_time"] == 100
    assert round(found[0].total_s * TICKS_PER_S) == 100


numbers = st.integers(0, 2**64 - 1)
threads = st.builds(
    lambda values, state: COUNTERS._replace(
        user_ticks=values[0], system_ticks=values[1], voluntary=values[2], ran_ns=values[3],
        waited_ns=values[4],
        start_ticks=values[5] % 2, minor_faults=values[6], state=state,
    ),
    st.tuples(*[numbers] * 7),
    st.sampled_from("RSDT"),
)  # fmt: skip
cores = st.builds(lambda values: {0: CoreTicks(*values)}, st.tuples(*[numbers] * 10))


# How long it takes to make an example up decides nothing, beside other work.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(threads, threads, cores, cores, st.floats(0, 1e6), st.floats(0, 1e6))
def test_no_rate_is_ever_negative(first, second, before, now, began, ended) -> None:  # type: ignore[no-untyped-def]
    found = difference(sample(began, first, cores=before), sample(ended, second, cores=now))
    one = found.threads[10]
    assert min(one.seconds, one.user_s, one.system_s, one.waited_s or 0, one.busy_share) >= 0
    assert min(one.voluntary, one.involuntary, one.minor_faults, one.still_periods) >= 0
    assert min(found.cores[0].details.values()) >= 0


def test_spans_add_up() -> None:
    whole = span(thread(1, busy=0.5), thread(2), cores={0: 1.0})
    later = span(thread(1, busy=0.1, involuntary=5, waited_s=2.0), cores={0: 0.0})
    both = whole.then(later)
    assert (both.seconds, both.periods) == (20.0, 20)
    assert both.threads[1].busy_share == 0.3
    assert (both.threads[1].involuntary, both.threads[1].waited_s) == (5, 2.0)
    assert both.threads[2].ended and not both.threads[1].ended
    assert both.cores[0].share(both.cores[0].busy_s) == 0.5


def test_a_thread_is_still_only_as_long_as_it_has_been_to_the_end() -> None:
    period = thread(1, busy=0.0, seconds=1.0, state="S", still_periods=1)
    awake = replace(period, still_periods=0)
    total = span(period, seconds=1.0)
    for one in (period, awake, period, period):
        total = total.then(span(one, seconds=1.0))
    assert total.threads[1].still_periods == 2


@pytest.mark.thorough
def test_threads_that_come_and_go_do_not_pile_up() -> None:
    memory = {pid: ProcessSpan(pid, 0, 0) for pid in range(1, 3 * MOST_ENDED)}
    total = span(thread(1), processes={1: memory[1]}, seconds=1.0)
    for tid in range(2, 3 * MOST_ENDED):
        processes = {pid: memory[pid] for pid in (1, tid)}
        threads = thread(1), thread(tid, busy=tid / 1e4)
        total = total.then(span(*threads, processes=processes, seconds=1.0))
    assert total.processes.keys() == total.threads.keys()
    assert len(total.threads) == MOST_ENDED + 2
    assert total.dropped_threads == 2 * MOST_ENDED - 3
    assert min(tid for tid in total.threads if tid > 1) == 2 * MOST_ENDED - 1


ASLEEP = COUNTERS._replace(state="S")


@pytest.mark.parametrize(
    ("before", "now", "is_still"),
    [
        ([ASLEEP], [ASLEEP], True),
        # To be woken and to look takes some µs; three looks for work with what they find, 1 ms.
        ([ASLEEP], [ASLEEP._replace(ran_ns=10**9 + 20_000, slices=10)], True),
        ([ASLEEP], [ASLEEP._replace(ran_ns=10**9 + 10**6, slices=12)], False),
        # A worker has ended, and the one that waits for it will go on.
        ([ASLEEP, COUNTERS._replace(tid=11)], [ASLEEP], False),
        ([COUNTERS], [COUNTERS], False),
    ],
)
def test_a_node_is_still_where_nobody_ran_or_ended(
    before: list[ThreadCounters], now: list[ThreadCounters], is_still: bool
) -> None:
    assert difference(sample(1, *before), sample(2, *now)).still_periods == int(is_still)


def test_a_node_is_not_still_where_threads_ran_that_nobody_saw() -> None:
    later = sample(2, ASLEEP)
    later.processes = {10: later.processes[10]._replace(cpu_ticks=TICKS_PER_S // 10)}
    assert difference(sample(1, ASLEEP), later).still_periods == 0


def test_periods_in_which_nobody_ran_are_counted_to_the_end() -> None:
    still = span(thread(1, busy=0.0, seconds=1.0, state="S", still_periods=1), seconds=1.0)
    moved = replace(still, still_periods=0)
    assert still.then(still).still_periods == 2
    assert still.then(moved).then(still).still_periods == 1
