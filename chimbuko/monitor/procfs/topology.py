"""Topology of this node, out of hwloc's XML where hwloc is installed, else out of ``/sys/devices/system``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.numbers import keyed_counters, parse_cpulist
from chimbuko.monitor.procfs.topologytree import (
    CORE,
    KINDS,
    L2,
    L3,
    MACHINE,
    NUMA,
    PACKAGE,
    PU,
    Part,
    Topology,
    nested,
)


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
