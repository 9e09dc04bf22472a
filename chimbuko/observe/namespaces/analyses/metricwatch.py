"""Watch of all quantities of a program, sample by sample: conserved sums, and values that are alike on all
ranks, by cumulative sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

import numpy as np
import numpy.typing as npt

from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem

# Cumulative sums (Page 1954) of several series at once: a lasting deviation from zero adds up, noise does
# not.
#
# Of a standardised value each sample adds what exceeds ``SLACK`` to the sum of its side, which never falls
# below zero. The slack also covers that what is usual was learned from few samples: of 16 ranks the worst
# is half a standard deviation off. The limit leaves room for noise whose samples depend on each other.


SLACK = 1.5
LIMIT = 20.0
LARGEST = 10.0
"""Largest contribution of one sample, so that a single outlier does not look like a lasting deviation."""
_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation in units of its median absolute deviation."""


class Cusum:
    """Cumulative sums of ``count`` series, on the upper and on the lower side."""

    def __init__(self, count: int) -> None:
        self._sums = np.zeros((2, count))
        self._since = np.zeros((2, count), np.int64)

    def add(self, step: int, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Add a sample of standardised values, and return which series are beyond the limit."""
        sides = np.stack([values, -values])
        sums = np.maximum(self._sums + np.minimum(sides, LARGEST) - SLACK, 0.0)
        self._since[self._sums == 0.0] = step
        self._sums = sums
        return np.asarray((sums > LIMIT).any(axis=0))

    def since(self, series: int) -> int:
        """Return the step from which a series has been away from zero."""
        return int(self._since[np.argmax(self._sums[:, series]), series])


def scale(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the standard deviation of each column's noise, from differences of neighbours, so that a trend
    does not count.
    """
    differences = np.abs(np.diff(samples, axis=0))
    sigma: npt.NDArray[np.float64] = _TO_SIGMA * np.median(differences, axis=0) / np.sqrt(2.0)
    return sigma


# Watch of quantities that are alike on all ranks, such as extrema of a field: a rank that departs is named.
#
# What differs between ranks all the time, and what all of them do together, is no departure.


ALIKE_LEARNED = 60
"""Number of samples from which the usual behaviour is learned."""
LEAST_RANKS = 4
"""Least number of ranks that are compared: among fewer nobody can say which one departs."""
FAR_FROM_ZERO = 5.0
"""Distance from zero, in multiples of the spread, beyond which values are also compared by their ratios."""
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
Floats = npt.NDArray[np.float64]


class Compared:
    """One quantity by which ranks are compared."""

    def __init__(self, quantity: str, ranks: int) -> None:
        self._quantity = quantity
        self._learned: list[Floats] = []
        self._measures: list[_Measure] = []
        self._cusum = Cusum(ranks)
        self._found = np.zeros(ranks, np.bool_)

    def take(self, step: int, values: Floats) -> Finding | None:
        """Add the values of all ranks (f8[ranks]) at a step; those that are no numbers are left out."""
        is_number = np.isfinite(values)
        if len(values) < LEAST_RANKS or is_number.sum() < LEAST_RANKS:
            return None
        if len(self._learned) < ALIKE_LEARNED:
            if is_number.all():
                self._learned.append(values)
            if len(self._learned) == ALIKE_LEARNED:
                self._measures = _measures(np.array(self._learned))
            return None
        away = self._away(values, is_number)
        away[~is_number] = 0.0
        new = self._cusum.add(step, away) & ~self._found
        if not new.any():
            return None
        self._found |= new
        ranks = tuple(int(rank) for rank in np.flatnonzero(new))
        worst = max(ranks, key=lambda rank: abs(away[rank]))
        since, change = self._cusum.since(worst), float(away[worst])
        return Finding(Problem.DEPARTURE, self._quantity, ranks, since, step, change)

    def _away(self, values: Floats, is_number: npt.NDArray[np.bool_]) -> Floats:
        """Return the distance of each rank from its usual place, by differences or by ratios, whichever is
        the smaller one.

        All of them may move by the same amount, or by the same factor: a departure is none of both.
        """
        away, *others = (measure.away(values, is_number) for measure in self._measures)
        for other in others:
            nearer = np.where(np.abs(other) < np.abs(away), other, away)
            away = np.where(np.sign(other) == np.sign(away), nearer, 0.0)
        return away


class _Measure:
    """Usual distance of each rank from the others, as differences or as ratios."""

    def __init__(self, samples: Floats, by_ratio: bool) -> None:
        self._by_ratio = by_ratio
        self._usual = np.median(samples, axis=0)
        beside = np.array([self._beside(values, np.ones(len(values), np.bool_)) for values in samples])
        self._usual = (
            self._usual * (1.0 + np.median(beside, axis=0))
            if by_ratio
            else (self._usual + np.median(beside, axis=0))
        )
        sigma = scale(beside)
        largest = 1.0 if by_ratio else max(float(np.abs(samples).max()), np.finfo(np.float64).tiny)
        # So few samples of one rank say little: no rank counts as much quieter than most are.
        self._sigma = np.maximum(sigma, max(float(np.median(sigma)), _ROUNDING * largest))

    def away(self, values: Floats, is_number: npt.NDArray[np.bool_]) -> Floats:
        """Return the distance of each rank from its usual place, in standard deviations."""
        with np.errstate(all="ignore"):
            away: Floats = self._beside(values, is_number) / self._sigma
        return np.nan_to_num(away)

    def _beside(self, values: Floats, is_number: npt.NDArray[np.bool_]) -> Floats:
        """Return the values without what all ranks have in common."""
        if not self._by_ratio:
            change = values - self._usual
            difference: Floats = change - np.median(change[is_number])
            return difference
        factor = values / self._usual
        ratio: Floats = factor / np.median(factor[is_number]) - 1.0
        return ratio


def _measures(samples: Floats) -> list[_Measure]:
    middles = np.median(samples, axis=1)
    spread = float(np.abs(samples - middles[:, None]).max())
    measures = [_Measure(samples, by_ratio=False)]
    if np.abs(middles).min() > FAR_FROM_ZERO * spread:
        measures.append(_Measure(samples, by_ratio=True))
    return measures


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
