"""What each part of the pipeline takes for a unit of work, as it was measured."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

READERS = "readers"
"""Of one node: the processes of its streams, and its agent."""
SERVICES = ("broker", "server", "writer", "dashboard", "serve")
"""Processes on the node of the services."""
FILE = "unitcosts.json"
"""Written by ``python -m benchmarks.scaling --measure``."""


class Units(msgspec.Struct, frozen=True, kw_only=True):
    """Units of work: how many of each there are, or what one of each takes."""

    second: float = 0.0
    agent: float = 0.0
    """That is there, for a second."""
    rank: float = 0.0
    """The same."""
    message: float = 0.0
    """Of an agent, with what its ranks have learned."""
    step: float = 0.0
    """Of a stream."""
    cold_step: float = 0.0
    """The same, what it takes beside that on a core which idles otherwise: caches are cold then. Where a core
    idles for a part of the time that part of all steps is cold."""
    row: float = 0.0
    """Of the trace."""
    finding: float = 0.0
    """An abnormal call with all that is kept of it."""

    def of(self, work: Units) -> float:
        """All of the work, each unit at what it takes."""
        mine, its = msgspec.structs.astuple(self), msgspec.structs.astuple(work)
        return float(sum(one * count for one, count in zip(mine, its, strict=True)))


class PartCosts(msgspec.Struct, frozen=True):
    """Of one part."""

    cpu_s: Units
    memory_bytes: Units
    """Proportional (PSS)."""
    wait_s: Units = Units()
    """Until it turns to what has come, though it has time: what it does together takes the longer the more
    comes in a second."""


class UnitCosts(msgspec.Struct, frozen=True):
    """Of all parts; and bytes."""

    parts: dict[str, PartCosts]
    wire_bytes: Units
    """Between agents and broker, both ways."""
    frame_bytes: Units
    """For dashboards."""
    store_bytes: Units


@cache
def measured() -> UnitCosts:
    """Costs that come with this version."""
    text = (files("chimbuko.plan") / FILE).read_bytes()
    return msgspec.json.decode(text, type=UnitCosts)
