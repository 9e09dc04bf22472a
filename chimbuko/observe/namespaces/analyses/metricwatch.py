"""Watch of all quantities of a program, sample by sample: conserved sums, and values that are alike on
all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

import numpy as np
import numpy.typing as npt

from chimbuko.observe.namespaces.analyses.compared import Compared
from chimbuko.observe.namespaces.analyses.cusum import Cusum, scale
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem

LEARNED = 40
"""Number of samples from which the usual behaviour is learned."""
LEAST_DRIFT = 1e-4
"""Least relative change of the sum that is reported: rounding errors add up, too."""
STANDS_OUT = 0.8
"""Share of the whole change that few ranks make up together if they are to be named."""
MOST_RANKS = 0.25
"""Largest share of all ranks that can be named as few; if it takes more, all ranks are concerned."""


class Conserved:
    """One quantity whose sum over all ranks stays the same."""

    def __init__(self, quantity: str) -> None:
        self._quantity = quantity
        self._learned: list[npt.NDArray[np.float64]] = []
        self._usual = np.zeros(0)
        self._sigma = 0.0
        self._cusum = Cusum(1)
        self._is_found = False

    def take(self, step: int, values: npt.NDArray[np.float64]) -> Finding | None:
        """Add the values of all ranks (f8[ranks]) at a step, and return the finding, if there is one."""
        if self._is_found or not np.isfinite(values).all():
            return None
        if len(self._learned) < LEARNED:
            self._learned.append(values)
            if len(self._learned) == LEARNED:
                self._learn(np.array(self._learned))
            return None
        change = float(values.sum() - self._usual.sum())
        beyond = self._cusum.add(step, np.array([change / self._sigma]))
        whole = max(abs(float(self._usual.sum())), np.finfo(np.float64).tiny)
        if not beyond[0] or abs(change) < LEAST_DRIFT * whole:
            return None
        self._is_found = True
        ranks = self._standing_out(values - self._usual)
        kind = Problem.LOCAL_DRIFT if ranks else Problem.GLOBAL_DRIFT
        return Finding(kind, self._quantity, ranks, self._cusum.since(0), step, change / whole)

    def _learn(self, samples: npt.NDArray[np.float64]) -> None:
        # The newest ones: if it drifts from the very beginning the median of all would be far away.
        self._usual = np.median(samples[-LEARNED // 2 :], axis=0)
        sums = samples.sum(axis=1)
        rounding = np.finfo(np.float64).eps * float(np.abs(sums).max()) * len(self._usual)
        self._sigma = max(float(scale(sums[:, None])[0]), rounding, np.finfo(np.float64).tiny)

    def _standing_out(self, changes: npt.NDArray[np.float64]) -> tuple[int, ...]:
        """Return the few ranks that make up most of a change; empty if it takes many."""
        towards = changes * np.sign(changes.sum())
        order = np.argsort(-towards)
        most = max(1, int(MOST_RANKS * len(changes)))
        # A change that all ranks have in common is no single rank's.
        own = np.maximum(towards - np.median(towards), 0.0)
        for count in range(1, most + 1):
            if own[order[:count]].sum() > STANDS_OUT * towards.sum():
                return tuple(sorted(int(rank) for rank in order[:count]))
        return ()


class Role(Enum):
    """Expectation of a quantity, besides that it is a number."""

    CONSERVED = "conserved"
    """The sum over all ranks stays the same."""
    COMPARED = "compared"
    """The value is alike on all ranks."""
    NONE = "none"


class MetricWatch:
    """Detector of problems in the quantities of a program.

    Parameters
    ----------
    roles
        Roles of the quantities that are watched.
    ranks
        Number of ranks.
    """

    def __init__(self, roles: Mapping[str, Role], ranks: int) -> None:
        self._conserved = {name: Conserved(name) for name, role in roles.items() if role is Role.CONSERVED}
        self._compared = {
            name: Compared(name, ranks) for name, role in roles.items() if role is Role.COMPARED
        }
        self._no_numbers: dict[str, set[int]] = {name: set() for name in roles}

    def take(self, step: int, values: Mapping[str, npt.NDArray[np.float64]]) -> Iterator[Finding]:
        """Add the values of all ranks (f8[ranks]) of quantities at a step, and yield the findings."""
        yield from self.take_some(step, values)
        for name, of_ranks in values.items():
            for watched in (self._conserved.get(name), self._compared.get(name)):
                found = watched.take(step, of_ranks) if watched is not None else None
                if found is not None:
                    yield found

    def take_some(self, step: int, values: Mapping[str, npt.NDArray[np.float64]]) -> Iterator[Finding]:
        """Add values of which some are made up, and yield only findings about values that are no numbers."""
        for name, of_ranks in values.items():
            ranks = {int(rank) for rank in np.flatnonzero(~np.isfinite(of_ranks))} - self._no_numbers[name]
            if ranks:
                self._no_numbers[name] |= ranks
                yield Finding(Problem.NOT_A_NUMBER, name, tuple(sorted(ranks)), step, step, 0.0)
