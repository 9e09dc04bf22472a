"""Costs of a unit of work in each part of the pipeline, as they were measured."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

READERS = "readers"
"""Parts on each node with ranks: the processes of its streams, and its agent."""
SERVICES = ("broker", "server", "writer", "dashboard", "serve")
"""Processes on the node of the services."""
KEEPER = "keeper"
"""Process beside several writers of one store, which explains what these have stored."""
LEAF = "leaf"
"""A leaf server, which merges what some of the agents learn."""
FILE = "unitcosts.json"
"""File of measured costs, written by ``python -m benchmarks.scaling --measure``."""


class Units(msgspec.Struct, frozen=True, kw_only=True):
    """Units of work: how many of each there are, or what one of each takes."""

    second: float = 0.0
    agent: float = 0.0
    """Cost of an agent per second."""
    rank: float = 0.0
    """Cost of a rank per second."""
    message: float = 0.0
    """Cost of a message of an agent, with what its ranks have learned."""
    step: float = 0.0
    """Cost of a step of a stream."""
    cold_step: float = 0.0
    """A step on a core which idles otherwise: its cost beside that of a step, since caches are cold then.

    Where a core idles for a part of the time that part of all steps is cold.
    """
    row: float = 0.0
    """A row of the trace."""
    finding: float = 0.0
    """An abnormal call with all that is kept of it."""

    def of(self, work: Units) -> float:
        """Return the cost of all of the work, each unit at what it takes."""
        mine, its = msgspec.structs.astuple(self), msgspec.structs.astuple(work)
        return float(sum(one * count for one, count in zip(mine, its, strict=True)))


class PartCosts(msgspec.Struct, frozen=True):
    """Costs of one part."""

    cpu_s: Units
    memory_bytes: Units
    """Memory in bytes, proportional (PSS)."""
    wait_s: Units = Units()
    """Seconds until the part turns to what has come, though it has time: what it does together takes the
    longer the more comes in a second.
    """


class UnitCosts(msgspec.Struct, frozen=True):
    """Costs of all parts, and bytes."""

    parts: dict[str, PartCosts]
    wire_bytes: Units
    """Bytes between agents and broker, both ways."""
    frame_bytes: Units
    """Bytes for dashboards."""
    store_bytes: Units


@cache
def measured() -> UnitCosts:
    """Return the costs that come with this version."""
    text = (files("chimbuko.plan") / FILE).read_bytes()
    return msgspec.json.decode(text, type=UnitCosts)
