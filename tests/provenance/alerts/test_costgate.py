"""Findings pass once, and again when they cost ten times as much."""

from __future__ import annotations

from chimbuko.provenance.alerts.alertkind import CostGate


def test_each_passes_once_and_again_at_ten_times_the_cost() -> None:
    gate = CostGate(1000.0, 10.0)
    costs = (999.0, 1000.0, 1000.0, 9999.0, 10_000.0, 99_000.0, 500.0, 100_000.0)
    assert [cost_us for cost_us in costs if gate.passes("relax", cost_us)] == [1000.0, 10_000.0, 100_000.0]
    assert not gate.passes("relax", 100_001.0)
    assert not gate.has_passed("step") and gate.passes("step", 2000.0) and gate.has_passed("step")


def test_without_growth_each_passes_once() -> None:
    gate = CostGate(1000.0)
    assert [gate.passes(7, cost_us) for cost_us in (10.0, 1000.0, 1e300)] == [False, True, False]


def test_what_was_stored_before_is_not_new() -> None:
    gate = CostGate(1000.0, 10.0)
    gate.know("relax", 2000.0)
    gate.know("step", 10.0)
    assert not gate.passes("relax", 2000.0) and not gate.passes("step", 10.0)
    assert gate.has_passed("relax") and not gate.has_passed("step")
    assert gate.passes("relax", 20_000.0) and gate.passes("step", 1000.0)


def test_what_is_stored_anew_does_not_undo_what_has_passed() -> None:
    """The successor of a store that was put aside numbers anew, and has findings later, with lower costs."""
    gate = CostGate(1000.0, 10.0)
    assert gate.passes("relax", 20_000.0)
    gate.know("relax", 2000.0)
    assert not gate.passes("relax", 30_000.0)
