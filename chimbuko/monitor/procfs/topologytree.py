"""The parts of a node as a tree, with logical (``L#``) and physical (``P#``) numbers, as hwloc's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from chimbuko.monitor.procfs.numbers import format_cpulist

MACHINE, PACKAGE, NUMA, L3, L2, CORE, PU = (
    "Machine",
    "Package",
    "NUMANode",
    "L3Cache",
    "L2Cache",
    "Core",
    "PU",
)
KINDS = (MACHINE, PACKAGE, L3, L2, CORE, PU, NUMA)
"""Kinds of parts, from the outside to the inside where two hold the same hardware threads. Memory holds
nothing else.
"""


class Part(msgspec.Struct):
    """One part of a node."""

    kind: str
    physical: int | None
    """The kernel's number; caches may have none."""
    cpus: frozenset[int]
    """Physical numbers of its hardware threads."""
    size_bytes: int | None = None
    """Size of memory and caches, in bytes."""
    logical: int = 0
    """Number of parts of its kind that come before it."""
    children: list[Part] = msgspec.field(default_factory=list)

    def walk(self) -> Iterator[Part]:
        """Yield this part and all parts in it, outer ones first."""
        yield self
        for child in self.children:
            yield from child.walk()


class Topology:
    """The tree of a node, and what follows from it."""

    def __init__(self, root: Part) -> None:
        self.root = root
        counts: Counter[str] = Counter()
        for part in root.walk():
            part.logical = counts[part.kind]
            counts[part.kind] += 1
        self.counts = dict(counts)
        """Number of parts of each kind."""
        self.core_of = {cpu: core.logical for core in root.walk() if core.kind == CORE for cpu in core.cpus}
        """Logical number of the core by hardware thread; those of one core share its units."""

    def cpus(self) -> tuple[int, ...]:
        """Physical numbers of all hardware threads."""
        return tuple(sorted(part.physical or 0 for part in self.root.walk() if part.kind == PU))

    def lines(self, allowed: Collection[int] | None = None) -> list[str]:
        """Return the tree as text; hardware threads that are not ``allowed`` have a ``-`` behind them."""
        return list(_lines(self.root, 0, allowed))

    def as_json(self) -> dict[str, Any]:
        """Return the tree as nested values: each part with those in it, and its hardware threads."""
        return _json(self.root)


def _json(part: Part) -> dict[str, Any]:
    return {
        "kind": part.kind,
        "logical": part.logical,
        "physical": part.physical,
        "cpus": sorted(part.cpus),
        "size_bytes": part.size_bytes,
        "parts": [_json(child) for child in part.children],
    }


def _lines(part: Part, depth: int, allowed: Collection[int] | None) -> Iterator[str]:
    size = f" ({_size(part.size_bytes)})" if part.size_bytes else ""
    physical = "" if part.physical is None or part.kind == MACHINE else f" P#{part.physical}"
    number = "" if part.kind == MACHINE else f" L#{part.logical}"
    barred = " -" if part.kind == PU and allowed is not None and part.physical not in allowed else ""
    yield f"{'  ' * depth}{part.kind}{number}{physical}{size}{barred}"
    for child in part.children:
        yield from _lines(child, depth + 1, allowed)


def _size(size_bytes: int) -> str:
    for unit, factor in (("GB", 2**30), ("MB", 2**20)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.0f} {unit}"
    return f"{size_bytes / 1024:.0f} kB"


def nested(parts: Iterable[Part]) -> Topology:
    """Return a tree of parts of which each is only known by its hardware threads."""
    first, *others = sorted(
        parts, key=lambda part: (-len(part.cpus), KINDS.index(part.kind), min(part.cpus, default=0))
    )
    for part in others:
        _holder(first, part).children.append(part)
    for part in first.walk():
        # Memory stands first, and the rest in the order of its hardware threads.
        part.children.sort(key=lambda child: (child.kind != NUMA, min(child.cpus, default=0)))
    return Topology(first)


def _holder(part: Part, new: Part) -> Part:
    """Return the part in which a new one lies: of parts that hold the same hardware threads the innermost,
    but of memory the outermost below the machine, as hwloc has it.
    """
    for child in part.children:
        if child.kind not in (NUMA, PU) and new.cpus <= child.cpus:
            return child if new.kind == NUMA and new.cpus == child.cpus else _holder(child, new)
    return part


def summary(topology: Topology) -> str:
    """``8 packages, 64 cores, 256 hardware threads (0-255)``."""
    kinds = ((PACKAGE, "package"), (NUMA, "NUMA node"), (CORE, "core"), (PU, "hardware thread"))
    words = [
        f"{topology.counts[kind]} {name}{'' if topology.counts[kind] == 1 else 's'}"
        for kind, name in kinds
        if topology.counts.get(kind)
    ]
    return f"{', '.join(words)} ({format_cpulist(topology.cpus())})"
