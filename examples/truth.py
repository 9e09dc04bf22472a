"""Injected delays, and which of them a run has found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

TOLERANCE_US = 2000
"""A flagged call contains a delay if it does so within 2 ms."""


class FlaggedCall(Protocol):
    """What has to be known of a call, whether from the store or from a record."""

    @property
    def rank(self) -> int: ...
    @property
    def function(self) -> str: ...
    @property
    def entry_us(self) -> int: ...
    @property
    def exit_us(self) -> int: ...


Flagged = TypeVar("Flagged", bound=FlaggedCall)


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

    def is_of(self, function: str) -> bool:
        """Whether it happened in a function of this name, as a trace has it."""
        # `relax [{heat.py}{12}]`, `Strip.relax [{heat.py}{12}]` and `Strip::relax() [{heat.cc} {12,0}]` are
        # all the function `relax`.
        return re.split(r"\.|::", re.split(r" \[|\(", function)[0])[-1] == self.function

    def is_in(self, call: FlaggedCall) -> bool:
        """Whether it happened inside this call."""
        return (
            call.rank == self.rank
            and self.is_of(call.function)
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


def match(
    delays: list[InjectedDelay], anomalies: list[Flagged]
) -> list[tuple[InjectedDelay, Flagged | None]]:
    """Each delay with the anomaly that is it, if there is one."""
    return [(delay, next((call for call in anomalies if delay.is_in(call)), None)) for delay in delays]
