"""What is usual of the analysis, where a run has not shown it: as it was measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

FILE = "usual.json"
"""Written by ``python -m benchmarks.placing --keep``."""


@dataclass(frozen=True)
class UnitCosts:
    """CPU time, in seconds."""

    second: float
    step: float
    """Of one stream."""
    row: float

    def cpu_s(self, seconds: float, steps: float, rows: float) -> float:
        """Of so many seconds in which so many steps with so many rows come."""
        return self.second * seconds + self.step * steps + self.row * rows


@dataclass(frozen=True)
class Slowdown:
    """What the application waits for each CPU-second of the analysis, beside what the equations say: 1 of it
    where both share a core, 0 where not.
    """

    shared: float = 1.0
    """On all of several cores: more where it falls on them unevenly, since ranks wait for the last one."""
    inside: float = 1.0
    """On some cores, or on the only one: more where both throw each other's data out of the caches."""
    own: float = 0.0
    """On cores of its own: what caches and memory are slower by."""

    def of_shared(self, cores: int) -> float:
        """On all cores; one core is nothing to share unevenly."""
        return self.shared if cores > 1 else self.inside


@dataclass(frozen=True)
class Usual:
    """Of the analysis of a node."""

    cpu_s: UnitCosts
    slowdown: Slowdown


@cache
def usual() -> Usual:
    """What comes with this version."""
    return msgspec.json.decode((files("chimbuko.plan") / FILE).read_bytes(), type=Usual)
