"""How evenly the ranks of a program are loaded, by the time that each spends in MPI."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from chimbuko.namespaces.analyses.series import of_rank, values
from chimbuko.namespaces.exchange.reader import Observation
from chimbuko.namespaces.tree.leaves import Leaf, elements
from chimbuko.namespaces.tree.paths import Path
from chimbuko.namespaces.tree.tree import Nested

_EXCLUSIVE = re.compile(r"(MPI_\w+?)(?:\(\))?_Exclusive")


class MpiTimes:
    """Time in MPI of each rank, by leaves ``…/Rank N/…/MPI_NAME_Exclusive``: sums since the beginning of the
    program, in TAU's words and units, of which the last one counts.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], float] = {}

    def take(self, path: Path, leaf: Leaf) -> None:
        """Take a leaf, if it is one of these."""
        name = _EXCLUSIVE.fullmatch(path[-1])
        if name is None or isinstance(leaf, str) or elements(leaf).size != 1:
            return
        rank, rest = of_rank(path, 0)
        if rest != path:
            self._last[rank, name[1]] = float(elements(leaf).ravel()[0])

    @property
    def of_ranks(self) -> dict[int, float]:
        """Rank to time, in the order of ranks."""
        sums: dict[int, float] = defaultdict(float)
        for (rank, _), time in self._last.items():
            sums[rank] += time
        return dict(sorted(sums.items()))


def load_balance(observations: Sequence[Observation]) -> Nested:
    """Time in MPI of each rank, and how evenly it is spread.

    ``balance`` is the mean over the ranks through the largest of them: 1 where all are alike.
    """
    known = MpiTimes()
    for path, _, leaf in values(observations):
        known.take(path, leaf)
    sums = known.of_ranks
    if not sums:
        return {}
    times = np.array(list(sums.values()))
    largest = float(times.max())
    return {
        "mpi_time": {f"Rank {rank}": time for rank, time in sums.items()},
        "mean": float(times.mean()),
        "largest": largest,
        "balance": float(times.mean()) / largest if largest > 0.0 else 1.0,
    }
