"""Lists of hosts as schedulers write them, read as names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from chimbuko.core.errors import ConfigError

_PART = re.compile(r"(?:[^\[\],]|\[[^\[\]]*\])+")
_BRACKETS = re.compile(r"([^\[]*)\[([^\]]*)\](.*)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> list[str]:
    """Return the hosts of a list such as ``login,node[001-003,7]-ib``, as Slurm and Flux write it, in its
    order.

    Raises
    ------
    ConfigError
        The text is no list of hosts.
    """
    parts = _PART.findall(text)
    if ",".join(parts) != text or not parts:
        raise ConfigError(f"{text!r}: no list of hosts, such as node[01-04,7]")
    return [host for part in parts for host in _expanded(part, text)]


def of_slots(lines: Iterable[str]) -> list[str]:
    """Return the hosts of a file with a line for each slot, as of PBS and LSF: each host once, in its
    order.
    """
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def of_pairs(text: str) -> list[str]:
    """Return the hosts of LSF's ``node1 4 node2 4``, each with its number of slots."""
    return list(dict.fromkeys(text.split()[::2]))


def _expanded(part: str, text: str) -> Iterator[str]:
    match = _BRACKETS.fullmatch(part)
    if match is None:
        yield part
        return
    before, ranges, after = match.groups()
    for one in ranges.split(","):
        bounds = _RANGE.fullmatch(one)
        if bounds is None:
            raise ConfigError(f"{text!r}: {one!r} in it is no range of numbers")
        low, high = bounds[1], bounds[2] or bounds[1]
        for number in range(int(low), int(high) + 1):
            for rest in _expanded(after, text):
                yield f"{before}{number:0{len(low)}}{rest}"
