"""Load balance of the ranks of a program, from the time that each spends in MPI."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from chimbuko.observe.namespaces.analyses.series import of_rank, values
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.tree.leaves import Leaf, elements
from chimbuko.observe.namespaces.tree.paths import Path, format_path
from chimbuko.observe.namespaces.tree.tree import Nested

TAU, CALIPER = "TAU", "CALIPER"
"""Keys with which SOMA's layouts begin; the keys before one of them name a program."""
_EXCLUSIVE = re.compile(r"(MPI_(?:\w+?|\(others\)))(?:\(\))?_Exclusive")


class MpiTimes:
    """Time in MPI of each rank, from leaves whose path ends in ``Rank N`` and, deeper,
    ``MPI_NAME_Exclusive``.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, int, str], float] = {}

    def take(self, path: Path, leaf: Leaf) -> None:
        """Add a leaf, if it is one of these."""
        name = _EXCLUSIVE.fullmatch(path[-1])
        if name is None or isinstance(leaf, str) or elements(leaf).size != 1:
            return
        rank, rest = of_rank(path, 0)
        if rest != path:
            layout = next((at for at, key in enumerate(path) if key in (TAU, CALIPER)), 0)
            program = format_path(path[:layout])
            self._last[program, rank, name[1]] = float(elements(leaf).ravel()[0])

    @property
    def of_programs(self) -> dict[str, dict[int, float]]:
        """Return the times by program (empty for one without a name) and rank, both in order."""
        sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for (program, rank, _), time in self._last.items():
            sums[program][rank] += time
        return {program: dict(sorted(of_ranks.items())) for program, of_ranks in sorted(sums.items())}


def load_balance(observations: Sequence[Observation]) -> Nested:
    """Return the time in MPI of each rank, and how evenly it is spread, under the name of the program.

    ``balance`` is the mean over the ranks through the largest of them: 1 where all are alike.
    """
    known = MpiTimes()
    for path, _, leaf in values(observations):
        known.take(path, leaf)
    found: dict[str, Nested] = {}
    for program, of_ranks in known.of_programs.items():
        balance = _balance(of_ranks)
        found |= {program: balance} if program else balance
    return found


def _balance(of_ranks: Mapping[int, float]) -> Nested:
    times = np.array(list(of_ranks.values()))
    largest = float(times.max())
    return {
        "mpi_time": {f"Rank {rank}": time for rank, time in of_ranks.items()},
        "mean": float(times.mean()),
        "largest": largest,
        "balance": float(times.mean()) / largest if largest > 0.0 else 1.0,
    }
