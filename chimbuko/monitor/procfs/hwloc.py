"""A node's topology out of hwloc's XML, as ``lstopo --of xml`` writes it."""

from __future__ import annotations

from xml.etree import ElementTree

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.topologytree import KINDS, MACHINE, NUMA, Part, Topology


def parse_hwloc(xml: str) -> Topology:
    """The tree of the parts that we show; others are stepped over, and what is in them kept.

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
    part = Part(kind, _number(element), _cpus(element.get("cpuset", "")), int(size) if size else None)
    for child in element.findall("object"):
        below = _part(child)
        part.children += [below] if below.kind in KINDS else below.children
    part.children.sort(key=lambda child: child.kind != NUMA)
    return part


def _number(element: ElementTree.Element) -> int | None:
    text = element.get("os_index")
    return None if text is None else int(text)


def _cpus(text: str) -> frozenset[int]:
    """Hardware threads of a set as hwloc writes it: words of 32 bits, highest first, ``0x1,,0xff``."""
    found: set[int] = set()
    for position, word in enumerate(reversed(text.split(","))):
        bits = int(word, 16) if word else 0
        found.update(32 * position + bit for bit in range(32) if bits >> bit & 1)
    return frozenset(found)
