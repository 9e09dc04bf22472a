"""Causes in what a call computed, by counts as a core of 3.4 GHz has them."""

from __future__ import annotations

import pytest

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Work, flag_of
from chimbuko.causes.kinds.registry import cause_of
from chimbuko.causes.kinds.split import main_part, split
from tests.causes.flagged import record

USUAL = {
    Work.CPU_TIME: 50_000,
    Work.INSTRUCTIONS: 238_000_000,
    Work.CYCLES: 170_000_000,
    Work.CACHE_MISSES: 410_000,
}


def said(usual: dict[Work, int], **factors: float) -> tuple[str, str]:
    """Cause and clause of a call of 150 ms, of which 50 are usual, with so many times the usual counts."""
    now = {work: round(count * factors.get(work.name, 1.0)) for work, count in usual.items()}
    evidence = Evidence()
    evidence.put_ordinary(flag_of(record("step", 1, 0, 50, row=1, usual_ms=50, counters=list(usual.items()))))
    one = flag_of(record("step", 1, 100, 250, usual_ms=50, counters=list(now.items())))
    evidence.put(one)
    part = main_part(split(one, evidence))
    assert part.lost_us <= one.excess_us
    return part.kind, cause_of(part.kind).clause(part, 1)


@pytest.mark.parametrize(
    ("factors", "kind", "clause"),
    [
        (
            {"CPU_TIME": 3.0, "INSTRUCTIONS": 3.1, "CYCLES": 3.0, "CACHE_MISSES": 3.0},
            "more work",
            "as it did more work (3.1 times the instructions)",
        ),
        (
            {"CPU_TIME": 3.0, "CYCLES": 3.0, "CACHE_MISSES": 4.0},
            "slower machine",
            "as the machine was slower (memory: 4.0 times the cache misses)",
        ),
        (
            {"CPU_TIME": 3.0, "CYCLES": 3.0},
            "slower machine",
            "as the machine was slower (3.0 times the cycles for each instruction)",
        ),
        ({"CPU_TIME": 3.0}, "low clock", "as its core ran at 1.1 instead of 3.4 GHz"),
        ({"CPU_TIME": 1.02, "INSTRUCTIONS": 1.02, "CYCLES": 1.02}, "own code", ""),
    ],
)
def test_more_work_is_told_from_a_slower_machine(factors: dict[str, float], kind: str, clause: str) -> None:
    assert said(USUAL, **factors) == (kind, clause)


def test_without_counts_of_the_hardware_it_ran_longer_and_nobody_says_why() -> None:
    usual = {Work.CPU_TIME: 50_000, Work.FAULTS: 10}
    ran = "as it ran longer (150 ms of CPU time instead of 50 ms"
    assert said(usual, CPU_TIME=3.0) == ("own code", f"{ran})")
    # Faults are named where they may have taken a tenth of the excess and more.
    assert said(usual, CPU_TIME=3.0, FAULTS=300.0) == ("own code", f"{ran})")
    assert said(usual, CPU_TIME=3.0, FAULTS=900.0) == ("own code", f"{ran}, 9,000 page faults instead of 10)")


def test_who_ran_no_longer_or_is_not_counted_is_said_nothing_of() -> None:
    assert said({Work.CPU_TIME: 50_000, Work.FAULTS: 10}, CPU_TIME=1.2, FAULTS=900.0) == ("own code", "")
    assert said({}) == ("own code", "")


def test_who_did_not_run_lost_no_time_in_its_own_code() -> None:
    usual = {Work.CPU_TIME: 50_000, Work.OFF_CORE: 1_000}
    assert said(usual, OFF_CORE=96.0) == ("off its core", "as its thread did not run for 95 ms")
    # To run three times as long comes with three times the waits for a core.
    assert said(usual, CPU_TIME=3.0, OFF_CORE=3.0) == (
        "own code",
        "as it ran longer (150 ms of CPU time instead of 50 ms)",
    )


def test_who_did_more_on_a_slower_core_has_both() -> None:
    evidence = Evidence()
    evidence.put_ordinary(flag_of(record("step", 1, 0, 50, row=1, counters=list(USUAL.items()))))
    now = {
        Work.CPU_TIME: 200_000,
        Work.INSTRUCTIONS: 476_000_000,
        Work.CYCLES: 340_000_000,
    }
    one = flag_of(record("step", 1, 100, 300, usual_ms=50, counters=list(now.items())))
    evidence.put(one)
    parts = {part.kind: part.lost_us for part in split(one, evidence)}
    assert parts == {"more work": pytest.approx(50_000), "low clock": pytest.approx(100_000)}
