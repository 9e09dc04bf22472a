"""Costs of whole commands: of all processes, also of those that outlive the one that started them."""

from __future__ import annotations

import shlex
import sys
import time

import pytest

from benchmarks.whole.__main__ import Result, as_tables, difference
from benchmarks.whole.cases import Case
from benchmarks.whole.costs import Cost, measure

BUSY = shlex.quote(sys.executable) + " -c 'import time\nwhile time.process_time() < {}: pass'"


def busy(cpu_s: float) -> str:
    """A command that takes so much CPU time."""
    return BUSY.replace("{}", str(cpu_s))


def test_all_processes_count() -> None:
    cost = measure(Case("", f"{busy(0.3)} & {busy(0.2)}"))
    assert 0.5 <= cost.cpu_s < 2.0
    assert cost.cpu_s == pytest.approx(sum(cost.cpu_s_by_process.values()), abs=0.02)
    assert cost.pss_mb > 1


def test_who_outlives_the_command_counts() -> None:
    began_s = time.monotonic()
    # It computes once the shell is gone, whose process id $$ is.
    cost = measure(Case("", f"(while kill -0 $$ 2>/dev/null; do sleep 0.1; done; {busy(0.3)}) & true"))
    assert cost.cpu_s >= 0.3
    assert cost.wall_s <= time.monotonic() - began_s - 0.3


def test_the_application_does_not_count() -> None:
    cost = measure(Case("", busy(1.0), application=("python -c",)))
    assert cost.cpu_s < 0.9
    assert "python -c" not in cost.cpu_s_by_process and "python -c" not in cost.pss_mb_by_process


def test_what_is_left_and_when_the_program_began() -> None:
    cost = measure(Case("", "mkdir {folder}; echo 1234567 > {folder}/left; sleep 0.2; touch {began}"))
    assert cost.left_bytes == 8
    assert cost.began_s is not None and 0.19 <= cost.began_s <= cost.wall_s + 0.1


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(SystemExit, match="broken: ended with code 3\nwhy"):
        measure(Case("broken", "echo why; exit 3"))


def test_the_tables() -> None:
    def result(name: str, cpu_s: float, work: float, unit: str, base: str = "") -> Result:
        costs = [
            Cost(cpu_s + extra, 2.0, None, 100.0, 5_000_000, {"agent": cpu_s}, {"agent": 100.0})
            for extra in (0.0, 0.1)
        ]
        return Result(Case(name, "", work, unit, base), costs)

    text = as_tables(
        [
            result("small", 1.0, 0, "events"),
            result("large", 2.0, 4e6, "events", "small"),
            result("epochs", 1.4, 400, "epochs", "small"),
            result("live", 1.3, 10, "seconds", "small"),
        ],
        with_processes=True,
    )
    assert "large |   agent |  2.00 |  100.0 |" in text
    for expected in (
        "4.00 (4.00-4.00) M per CPU-s",
        "1.00 (1.00-1.00) ms each",
        "3.00 (3.00-3.00) % of a core",
    ):
        assert expected in text
    assert difference([2.0, 2.1, 1.9], [1.0, 1.0, 1.0]) == "+1.00 ± 0.25"
