"""Series of values: the leaves that observations set, one after the other. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from chimbuko.observe.namespaces.exchange.leaves import Leaf
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.paths import Path

RANK_KEY = re.compile(r"Rank (\d+)")
"""Pattern of a key that names a rank."""


def values(observations: Iterable[Observation]) -> Iterator[tuple[Path, int, Leaf]]:
    """Yield path, time in µs since the epoch and value of each leaf that was set, in order of time."""
    for observation in observations:
        for path, leaf in observation.change.put.items():
            yield path, observation.time_us, leaf


def of_rank(path: Path, rank: int) -> tuple[int, Path]:
    """Return the rank that a key ``Rank N`` names, and the path without it; ``rank`` where there is no such
    key.
    """
    for at, key in enumerate(path[:-1]):
        if found := RANK_KEY.fullmatch(key):
            return int(found[1]), path[:at] + path[at + 1 :]
    return rank, path
