"""A node's topology out of ``/sys/devices/system``, where hwloc is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chimbuko.monitor.procfs.cpulist import parse_cpulist
from chimbuko.monitor.procfs.numbers import keyed_counters
from chimbuko.monitor.procfs.topologytree import (
    CORE,
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

SYSTEM = Path("/sys/devices/system")
_CACHES = {"2": L2, "3": L3}
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def read_sysfs(root: Path = SYSTEM) -> Topology:
    """The tree of all that is online; what the kernel does not say is left out."""
    online = parse_cpulist(_text(root / "cpu" / "online"))
    parts: dict[tuple[str, frozenset[int]], Part] = {}
    for cpu in online:
        for part in _parts_of(root / "cpu" / f"cpu{cpu}", cpu, frozenset(online)):
            parts.setdefault((part.kind, part.cpus), part)
    memory = list(_memory(root / "node", frozenset(online)))
    machine = Part(MACHINE, 0, frozenset(online), sum(part.size_bytes or 0 for part in memory) or None)
    return nested([machine, *parts.values(), *memory])


def _parts_of(folder: Path, cpu: int, online: frozenset[int]) -> Iterator[Part]:
    """All that a hardware thread is in."""
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
