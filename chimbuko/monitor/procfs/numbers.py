"""Counters as the kernel writes them."""

from __future__ import annotations

LARGEST = 2**64 - 1


def counter(text: bytes) -> int | None:
    """A counter, or None where these are not the digits of one."""
    if not text.isdigit() or len(text) > 20:
        return None
    value = int(text)
    return value if value <= LARGEST else None


def counters(text: bytes) -> list[int] | None:
    """Counters with blanks between them, or None where one of them is none."""
    words = text.split()
    if not all(map(bytes.isdigit, words)) or len(max(words, key=len, default=b"")) > 20:
        return None
    values = list(map(int, words))
    return values if max(values, default=0) <= LARGEST else None


def keyed_counters(data: bytes, separator: bytes = b" ") -> dict[str, int]:
    """Lines such as ``nr_throttled 3`` or ``MemFree: 12 kB`` by their names; damaged lines are left out."""
    found = {}
    for line in data.splitlines():
        name, _, rest = line.partition(separator)
        value = counter(next(iter(rest.split()), b""))
        if name and value is not None:
            found[name.decode(errors="replace")] = value
    return found
