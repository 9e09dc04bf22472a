"""Lists of CPUs as the kernel writes them: ``0-3,8``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

MOST_CPUS = 65_536
"""No machine has a CPU of a higher number; a range beyond is damage."""


@lru_cache(maxsize=1024)
def parse_cpulist(text: str) -> tuple[int, ...]:
    """All CPUs of a list in rising order; parts that are damaged are left out."""
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
    """The shortest list of these CPUs, ``1-7,9``."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
