"""How evenly the ranks of a program are loaded, by the time that each spends in MPI."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from chimbuko.namespaces.analyses.series import values
from chimbuko.namespaces.exchange.reader import Observation
from chimbuko.namespaces.tree.leaves import elements
from chimbuko.namespaces.tree.tree import Nested

_RANK = re.compile(r"Rank (\d+)")
_EXCLUSIVE = re.compile(r"(MPI_\w+?)(?:\(\))?_Exclusive")


def load_balance(observations: Sequence[Observation]) -> Nested:
    """Time in MPI of each rank, and how evenly it is spread.

    Leaves are ``…/Rank N/…/MPI_NAME_Exclusive``, sums since the beginning of the program, in TAU's words and
    units. ``balance`` is the mean over the ranks through the largest of them: 1 where all are alike.
    """
    last: dict[tuple[int, str], float] = {}
    for path, _, leaf in values(observations):
        ranks = [int(found[1]) for key in path if (found := _RANK.fullmatch(key))]
        name = _EXCLUSIVE.fullmatch(path[-1])
        if ranks and name and not isinstance(leaf, str) and elements(leaf).size == 1:
            last[ranks[0], name[1]] = float(elements(leaf).ravel()[0])
    sums: dict[int, float] = defaultdict(float)
    for (rank, _), time in last.items():
        sums[rank] += time
    if not sums:
        return {}
    times = np.array([sums[rank] for rank in sorted(sums)])
    largest = float(times.max())
    return {
        "mpi_time": {f"Rank {rank}": sums[rank] for rank in sorted(sums)},
        "mean": float(times.mean()),
        "largest": largest,
        "balance": float(times.mean()) / largest if largest > 0.0 else 1.0,
    }
