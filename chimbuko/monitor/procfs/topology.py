"""Topology of this node as a tree, out of hwloc's XML where hwloc is installed, else out of
``/sys/devices``.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.numbers import format_cpulist, keyed_counters, parse_cpulist

# The parts of a node as a tree, with logical (``L#``) and physical (``P#``) numbers, as hwloc's.


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
    size = f" ({_size_text(part.size_bytes)})" if part.size_bytes else ""
    physical = "" if part.physical is None or part.kind == MACHINE else f" P#{part.physical}"
    number = "" if part.kind == MACHINE else f" L#{part.logical}"
    barred = " -" if part.kind == PU and allowed is not None and part.physical not in allowed else ""
    yield f"{'  ' * depth}{part.kind}{number}{physical}{size}{barred}"
    for child in part.children:
        yield from _lines(child, depth + 1, allowed)


def _size_text(size_bytes: int) -> str:
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


def parse_hwloc(xml: str) -> Topology:
    """Return the tree of the parts that we show; others are stepped over, and what is in them kept.

    Raises
    ------
    ConfigError
        It is not hwloc's XML.
    """
    try:
        document = ElementTree.fromstring(xml)
        roots = [_part(element) for element in document.findall("object")]
    except (ElementTree.ParseError, ValueError) as error:
        raise ConfigError(f"the topology of lstopo cannot be read: {error}") from error
    if len(roots) != 1 or roots[0].kind != MACHINE:
        raise ConfigError("the topology of lstopo has no machine in it; give the output of lstopo --of xml")
    (machine,) = roots
    # hwloc says of memory only how large each part of it is.
    machine.size_bytes = sum(part.size_bytes or 0 for part in machine.walk() if part.kind == NUMA) or None
    return Topology(machine)


def _part(element: ElementTree.Element) -> Part:
    kind = element.get("type", "")
    size = element.get("local_memory") or element.get("cache_size")
    part = Part(kind, _number_of(element), _cpus(element.get("cpuset", "")), int(size) if size else None)
    for child in element.findall("object"):
        below = _part(child)
        part.children += [below] if below.kind in KINDS else below.children
    part.children.sort(key=lambda child: child.kind != NUMA)
    return part


def _number_of(element: ElementTree.Element) -> int | None:
    text = element.get("os_index")
    return None if text is None else int(text)


def _cpus(text: str) -> frozenset[int]:
    """Hardware threads of a set as hwloc writes it: words of 32 bits, highest first, ``0x1,,0xff``."""
    found: set[int] = set()
    for position, word in enumerate(reversed(text.split(","))):
        bits = int(word, 16) if word else 0
        found.update(32 * position + bit for bit in range(32) if bits >> bit & 1)
    return frozenset(found)


SYSTEM = Path("/sys/devices/system")
_CACHES = {"2": L2, "3": L3}
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def read_sysfs(root: Path = SYSTEM) -> Topology:
    """Return the tree of all that is online; what the kernel does not say is left out."""
    online = parse_cpulist(_text(root / "cpu" / "online"))
    parts: dict[tuple[str, frozenset[int]], Part] = {}
    for cpu in online:
        for part in _parts_of(root / "cpu" / f"cpu{cpu}", cpu, frozenset(online)):
            parts.setdefault((part.kind, part.cpus), part)
    memory = list(_memory(root / "node", frozenset(online)))
    machine = Part(MACHINE, 0, frozenset(online), sum(part.size_bytes or 0 for part in memory) or None)
    return nested([machine, *parts.values(), *memory])


def _parts_of(folder: Path, cpu: int, online: frozenset[int]) -> Iterator[Part]:
    """Yield all that a hardware thread is in."""
    topology = folder / "topology"
    yield Part(PU, cpu, frozenset((cpu,)))
    for kind, number, siblings in (
        (CORE, "core_id", ("core_cpus_list", "thread_siblings_list")),
        (PACKAGE, "physical_package_id", ("package_cpus_list", "core_siblings_list")),
    ):
        text = next(filter(None, (_text(topology / name) for name in siblings)), "")
        cpus = online & set(parse_cpulist(text))
        if cpus:
            yield Part(kind, _number(_text(topology / number)), frozenset(cpus))
    for cache in sorted((folder / "cache").glob("index*")):
        cpus = online & set(parse_cpulist(_text(cache / "shared_cpu_list")))
        level = _CACHES.get(_text(cache / "level"))
        if level and cpus and _text(cache / "type") != "Instruction":
            yield Part(level, _number(_text(cache / "id")), frozenset(cpus), _size(_text(cache / "size")))


def _memory(folder: Path, online: frozenset[int]) -> Iterator[Part]:
    for node in sorted(folder.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = online & set(parse_cpulist(_text(node / "cpulist")))
        total = keyed_counters(_text(node / "meminfo").replace(f"Node {node.name[4:]} ", "").encode(), b":")
        if cpus:
            size = 1024 * total["MemTotal"] if "MemTotal" in total else None
            yield Part(NUMA, int(node.name[4:]), frozenset(cpus), size)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _size(text: str) -> int | None:
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] if number.isdigit() and unit in _UNITS else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


PROGRAMS = ("lstopo-no-graphics", "lstopo")
LONGEST_S = 20.0


def read_topology() -> Topology:
    """Read the topology of this node, also of parts that this process may not use; an ``lstopo`` that fails
    is passed over.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is not None:
        command = [program, "--of", "xml", "--disallowed", "--no-io"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST_S)
            return parse_hwloc(done.stdout)
        except (OSError, subprocess.SubprocessError, ConfigError):
            pass
    return read_sysfs()
