"""Watch of quantities that are alike on all ranks, such as extrema of a field: a rank that departs is
named.

What differs between ranks all the time, and what all of them do together, is no departure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.observe.namespaces.analyses.cusum import Cusum, scale
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem

LEARNED = 60
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
        if len(self._learned) < LEARNED:
            if is_number.all():
                self._learned.append(values)
            if len(self._learned) == LEARNED:
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
