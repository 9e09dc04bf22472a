"""The values that leaves had one after the other, as observations bring them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.tree.leaves import Leaf
from chimbuko.observe.namespaces.tree.paths import Path

RANK_KEY = re.compile(r"Rank (\d+)")
"""A key that names a rank."""


def values(observations: Iterable[Observation]) -> Iterator[tuple[Path, int, Leaf]]:
    """Path, time in µs and value of each leaf that was set, in order of time."""
    for observation in observations:
        for path, leaf in observation.change.put.items():
            yield path, observation.time_us, leaf


def of_rank(path: Path, rank: int) -> tuple[int, Path]:
    """The rank that a key ``Rank N`` names, and the path without it; ``rank`` where there is no such key."""
    for at, key in enumerate(path[:-1]):
        if found := RANK_KEY.fullmatch(key):
            return int(found[1]), path[:at] + path[at + 1 :]
    return rank, path
