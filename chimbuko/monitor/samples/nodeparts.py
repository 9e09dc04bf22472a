"""What is said of a node beside its rows: what it is made of, what costs its programs time, and how much."""

from __future__ import annotations

import msgspec


class NodePart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a node. Of a list of them each is in the last one before it that is less deep."""

    depth: int
    """0 is the machine."""
    kind: str
    """As hwloc calls it: Machine, Package, NUMANode, L3Cache, L2Cache, Core, PU."""
    logical: int
    """How many of its kind come before it."""
    physical: int | None
    """The kernel's number; caches have none."""
    cpus: str
    """Its hardware threads by their physical numbers, as ``0-3,8``."""
    size_bytes: int | None
    """Of memory and caches."""


class NodeFinding(msgspec.Struct, frozen=True, array_like=True):
    """Something that cost the programs of a node time."""

    kind: str
    """One word, such as ``oversubscribed``."""
    text: str
    """What was so, with the figures that show it."""
    advice: str
    """What to do."""


SAMPLED_US = 10_000_000
"""Of a loss that is longer rows are given of so much of its beginning."""


class RankLoss(msgspec.Struct, frozen=True, array_like=True):
    """Time in which the main thread of a rank lost much of it, as the kernel kept it from running.

    One that goes on is said again as it grows: with the same rank and begin.
    """

    program: int
    rank: int
    is_stopped: bool
    """By a signal, or a debugger; else it waited for a core."""
    begin_us: int
    """µs since 1970, by the node's clock."""
    end_us: int
    lost_us: int
    """Of that time; of waits for a core what is beyond the usual of the thread."""
