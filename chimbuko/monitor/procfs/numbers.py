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
    try:
        values = list(map(int, text.split()))
    except ValueError:
        return None
    return values if min(values, default=0) >= 0 and max(values, default=0) <= LARGEST else None


def keyed_counters(data: bytes, separator: bytes = b" ") -> dict[str, int]:
    """Lines such as ``nr_throttled 3`` or ``MemFree: 12 kB`` by their names; damaged lines are left out."""
    found = {}
    for line in data.splitlines():
        name, _, rest = line.partition(separator)
        value = counter(next(iter(rest.split()), b""))
        if name and value is not None:
            found[name.decode(errors="replace")] = value
    return found


def counter_behind(data: bytes, name: bytes) -> int | None:
    """The counter that stands behind ``name`` and blanks; None where there is none."""
    begin = data.find(name)
    if begin < 0:
        return None
    begin += len(name)
    words = data[begin : begin + 40].split(None, 1)
    return counter(words[0]) if words else None
