"""All quantities of a program, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

import numpy as np
import numpy.typing as npt

from chimbuko.observe.namespaces.analyses.compared import Compared
from chimbuko.observe.namespaces.analyses.conserved import Conserved
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem


class Role(Enum):
    """What is expected of a quantity, beside that it is a number."""

    CONSERVED = "conserved"
    """Its sum over all ranks stays the same."""
    COMPARED = "compared"
    """It is alike on all ranks."""
    NONE = "none"


class MetricWatch:
    """Looks for what is wrong in the quantities of a program.

    Parameters
    ----------
    roles
        Of the quantities that are watched.
    ranks
        How many there are.
    """

    def __init__(self, roles: Mapping[str, Role], ranks: int) -> None:
        self._conserved = {name: Conserved(name) for name, role in roles.items() if role is Role.CONSERVED}
        self._compared = {
            name: Compared(name, ranks) for name, role in roles.items() if role is Role.COMPARED
        }
        self._no_numbers: dict[str, set[int]] = {name: set() for name in roles}

    def take(self, step: int, values: Mapping[str, npt.NDArray[np.float64]]) -> Iterator[Finding]:
        """Take the values of all ranks (f8[ranks]) of quantities at a step; yields what is found by it."""
        yield from self.take_some(step, values)
        for name, of_ranks in values.items():
            for watched in (self._conserved.get(name), self._compared.get(name)):
                found = watched.take(step, of_ranks) if watched is not None else None
                if found is not None:
                    yield found

    def take_some(self, step: int, values: Mapping[str, npt.NDArray[np.float64]]) -> Iterator[Finding]:
        """The same where some of the values are made up: yields only what is not a number."""
        for name, of_ranks in values.items():
            ranks = {int(rank) for rank in np.flatnonzero(~np.isfinite(of_ranks))} - self._no_numbers[name]
            if ranks:
                self._no_numbers[name] |= ranks
                yield Finding(Problem.NOT_A_NUMBER, name, tuple(sorted(ranks)), step, step, 0.0)
