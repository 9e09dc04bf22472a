"""Counters, and lists of CPUs such as ``0-3,8``, as the kernel writes them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

MOST_CPUS = 65_536
"""Highest number of a CPU on any machine; a range beyond it is damaged text."""


@lru_cache(maxsize=1024)
def parse_cpulist(text: str) -> tuple[int, ...]:
    """Return all CPUs of a list in rising order; parts that are damaged are left out."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            continue
        found.update(range(int(first), (int(last) if dash else int(first)) + 1))
    return tuple(sorted(found))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < MOST_CPUS


def format_cpulist(cpus: Iterable[int]) -> str:
    """Return the shortest list of these CPUs, ``1-7,9``."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


LARGEST = 2**64 - 1


def counter(text: bytes) -> int | None:
    """Return a counter, or None if these are not the digits of one."""
    if not text.isdigit() or len(text) > 20:
        return None
    value = int(text)
    return value if value <= LARGEST else None


def counters(text: bytes) -> list[int] | None:
    """Counters with blanks between them, or None if one of them is none."""
    try:
        values = list(map(int, text.split()))
    except ValueError:
        return None
    return values if min(values, default=0) >= 0 and max(values, default=0) <= LARGEST else None


def keyed_counters(data: bytes, separator: bytes = b" ") -> dict[str, int]:
    """Return lines such as ``nr_throttled 3`` or ``MemFree: 12 kB`` by their names; damaged lines are left
    out.
    """
    found = {}
    for line in data.splitlines():
        name, _, rest = line.partition(separator)
        value = counter(next(iter(rest.split()), b""))
        if name and value is not None:
            found[name.decode(errors="replace")] = value
    return found


def counter_behind(data: bytes, name: bytes) -> int | None:
    """Return the counter that stands behind ``name`` and blanks; None if there is none."""
    begin = data.find(name)
    if begin < 0:
        return None
    begin += len(name)
    words = data[begin : begin + 40].split(None, 1)
    return counter(words[0]) if words else None
