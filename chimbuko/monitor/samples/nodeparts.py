"""What is said of a node beside its rows: what it is made of, and what costs its programs time."""

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
