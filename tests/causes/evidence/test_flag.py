"""Flags: what of a record matters for its cause."""

from __future__ import annotations

import msgspec

from chimbuko.causes.evidence.flag import flag_of
from chimbuko.core.calls.waiting import Waits
from tests.causes.flagged import at, flag, record


def test_excess_is_what_was_not_expected_of_the_runtime_that_was_judged() -> None:
    children = [("compute", 10, 30)]
    exclusive = flag("step", 0, 0, 50, children=children, usual_ms=5)
    inclusive = flag("step", 0, 0, 50, children=children, usual_ms=5, is_inclusive=True)
    assert (exclusive.is_exclusive, exclusive.judged_us, exclusive.excess_us) == (True, 30_000, 25_000)
    assert (inclusive.is_exclusive, inclusive.judged_us, inclusive.excess_us) == (False, 50_000, 45_000)


def test_lost_time_lies_in_the_longest_stretch_outside_of_its_calls() -> None:
    one = flag("step", 0, 0, 100, children=[("a", 5, 10), ("b", 80, 90)])
    assert (one.lost_from_us, one.lost_to_us) == (at(10), at(80))
    leaf = flag("leaf", 0, 0, 100)
    assert (leaf.lost_from_us, leaf.lost_to_us) == (at(0), at(100))


def test_a_window_with_the_first_calls_alone_says_what_was_lost_before_these() -> None:
    """Else the call would not be over when those were gone who waited for it in the first of them."""
    whole = record("step", 0, 0, 120, children=[("exchange", 90, 92), ("relax", 92, 100), ("rest", 101, 120)])
    window = [call for call in whole.window if call.function not in ("relax", "rest")]
    first = flag_of(msgspec.structs.replace(whole, window=window))
    assert (first.lost_from_us, first.lost_to_us) == (at(0), at(90))
    late = record("step", 0, 0, 120, children=[("exchange", 2, 4), ("relax", 4, 6), ("rest", 99, 119)])
    window = [call for call in late.window if call.function not in ("relax", "rest")]
    behind = flag_of(msgspec.structs.replace(late, window=window))
    assert (behind.lost_from_us, behind.lost_to_us) == (at(0), at(120))


def test_a_part_of_a_library_call_that_a_tool_adds_stands_for_that_call() -> None:
    sync = flag("MPI Collective Sync", 1, 0, 9, inside=[("0:1:1:1", "MPI_Allreduce()"), ("0:1:0:0", "main")])
    assert (sync.waits, sync.operation) == (Waits.COLLECTIVE, "MPI_Allreduce()")
    assert flag("solve", 1, 0, 9, inside=[("0:1:1:1", "MPI_Allreduce()")]).operation == "solve"
