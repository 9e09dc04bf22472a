"""What times of repetitions say: means, and what was added, with intervals. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
LEAST_ROUNDS = 10
"""Fewer leave more to chance than most programs differ by."""


@dataclass(frozen=True)
class Spread:
    """Times of one kind of execution."""

    mean_s: float
    deviation_s: float
    """Standard deviation."""
    interval_s: tuple[float, float]
    """95 %, of the mean."""


@dataclass(frozen=True)
class Added:
    """What one kind takes more than another, as a share of the application alone; a slowdown is positive.

    The paper's equation has the sign the other way round, and its table, as here, has not.
    """

    share: float
    interval: tuple[float, float]
    """95 %."""
    p: float
    """Of a t-test on the differences of each round: how often chance alone would show as much."""


@dataclass(frozen=True)
class Overhead:
    """Of one program."""

    rounds: int
    application: Spread
    traced: Spread
    analysed: Spread
    tracing: Added
    """Traced, beyond the application alone."""
    both: Added
    """Traced and analysed, beyond the application alone."""
    analysis: Added
    """Traced and analysed, beyond traced: the analysis' own share."""


def overhead(
    application_s: Sequence[float], traced_s: Sequence[float], analysed_s: Sequence[float]
) -> Overhead:
    """Of times of two rounds or more, each with one execution of each kind.

    A round's executions are compared with each other, so what changes from round to round falls out.
    """
    mean_s = float(np.mean(application_s))
    return Overhead(
        len(application_s),
        _spread(application_s),
        _spread(traced_s),
        _spread(analysed_s),
        _added(application_s, traced_s, mean_s),
        _added(application_s, analysed_s, mean_s),
        _added(traced_s, analysed_s, mean_s),
    )


def _spread(times_s: Sequence[float]) -> Spread:
    mean_s, margin_s = float(np.mean(times_s)), _margin(np.asarray(times_s))
    return Spread(mean_s, float(np.std(times_s, ddof=1)), (mean_s - margin_s, mean_s + margin_s))


def _added(base_s: Sequence[float], more_s: Sequence[float], application_s: float) -> Added:
    from scipy import stats

    differences = (np.asarray(more_s) - np.asarray(base_s)) / application_s
    share, margin = float(differences.mean()), _margin(differences)
    error = float(differences.std(ddof=1)) / len(differences) ** 0.5
    p = 2.0 * float(stats.t.sf(abs(share) / error, len(differences) - 1)) if error else float(share == 0.0)
    return Added(share, (share - margin, share + margin), p)


def _margin(values: np.ndarray) -> float:
    """Half of the interval of the mean, by Student's t."""
    from scipy import stats

    quantile = float(stats.t.ppf((1.0 + LEVEL) / 2.0, len(values) - 1))
    return quantile * float(values.std(ddof=1)) / float(len(values) ** 0.5)
