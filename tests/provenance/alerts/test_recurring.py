"""Findings of what recurs pass once, and again when they cost ten times as much."""

from __future__ import annotations

import msgspec

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.provenance.alerts.recurring import FindingGate
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary

DRIFT = Recurrence(0, RecurrenceKind.DRIFT, "relax", 9, 0.0, 0.0, 1.0, ["relax"], [], 1, 2, [])


def found(cost_us: float, function: str = "relax", number: int = 1) -> RecurrenceSummary:
    return RecurrenceSummary(
        f"R{number}", "It recurs.", msgspec.structs.replace(DRIFT, cost_us=cost_us, function=function)
    )


def passed(gate: FindingGate, *findings: RecurrenceSummary) -> list[tuple[str, float, bool]]:
    return [(one.id, one.recurrence.cost_us, is_growth) for one, is_growth in gate.passing(findings)]


def test_each_passes_once_and_again_at_ten_times_the_cost() -> None:
    gate = FindingGate(1000.0)
    costs = (999.0, 1000.0, 1000.0, 9999.0, 10_000.0, 99_000.0, 500.0, 100_000.0)
    assert [one for cost_us in costs for one in passed(gate, found(cost_us))] == [
        ("R1", 1000.0, False),
        ("R1", 10_000.0, True),
        ("R1", 100_000.0, True),
    ]
    assert passed(gate, found(100_001.0), found(2000.0, "step", 2)) == [("R2", 2000.0, False)]


def test_what_was_stored_before_is_not_new() -> None:
    gate = FindingGate(1000.0)
    stored = (found(2000.0), found(10.0, "step", 2))
    gate.know(one.recurrence for one in stored)
    assert passed(gate, *stored) == []
    assert passed(gate, found(20_000.0), found(1000.0, "step", 2)) == [
        ("R1", 20_000.0, True),
        ("R2", 1000.0, False),
    ]


def test_a_store_that_was_put_aside_does_not_make_them_new() -> None:
    """Its successor numbers anew, and has them later."""
    gate = FindingGate(1000.0)
    assert passed(gate, found(2000.0)) == [("R1", 2000.0, False)]
    gate.know([])
    assert passed(gate, found(3000.0, number=7)) == []
