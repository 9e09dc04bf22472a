"""Injected delays, and which of them a run has found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chimbuko.provenance.calls import CallFilter, CallSummary
from chimbuko.provenance.queries import Provenance

TOLERANCE_US = 2000
"""A flagged call contains a delay if it does so within 2 ms."""


@dataclass(frozen=True)
class InjectedDelay:
    """One delay, on the trace's own clock."""

    rank: int
    index: int
    """Iteration or task."""
    function: str
    start_us: int
    end_us: int
    milliseconds: int

    def is_in(self, call: CallSummary) -> bool:
        """Whether it happened inside this call."""
        # `relax [{heat.py}{12}]` and `Strip.relax [{heat.py}{12}]` are both the function `relax`.
        name = call.function.split(" [")[0].rsplit(".")[-1]
        return (
            call.rank == self.rank
            and name == self.function
            and call.entry_us <= self.start_us + TOLERANCE_US
            and call.exit_us >= self.end_us - TOLERANCE_US
        )


def read_truth(paths: Iterable[Path]) -> list[InjectedDelay]:
    """Delays from truth files: ``rank index function start_us end_us ms [thread]`` a line, by time."""
    delays = []
    for path in paths:
        for line in path.read_text().splitlines():
            rank, index, function, start_us, end_us, milliseconds, *_ = line.split()
            delays.append(
                InjectedDelay(int(rank), int(index), function, int(start_us), int(end_us), int(milliseconds))
            )
    return sorted(delays, key=lambda delay: delay.start_us)


def all_anomalies(provenance: Provenance) -> list[CallSummary]:
    """Every anomaly of a run."""
    found: list[CallSummary] = []
    cursor = None
    while True:
        page = provenance.calls(CallFilter(), limit=1000, cursor=cursor)
        found += page.calls
        cursor = page.next
        if cursor is None:
            return found


def match(
    delays: list[InjectedDelay], anomalies: list[CallSummary]
) -> list[tuple[InjectedDelay, CallSummary | None]]:
    """Each delay with the anomaly that is it, if there is one."""
    return [(delay, next((call for call in anomalies if delay.is_in(call)), None)) for delay in delays]
