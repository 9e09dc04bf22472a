"""Normal forms that are tried, and how they are fitted to points, many at a time.

How well predictions agree with what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array
from chimbuko.plan.normalform import Factor, NormalForm, Term


@dataclass(frozen=True)
class Agreement:
    """Agreement of predictions with measurements."""

    points: int
    r_squared: float | None
    """Equation 10; None if all measurements are the same."""
    max_relative_error: float
    """The greatest difference, as a share of what was measured."""


def agreement(measured_s: npt.ArrayLike, predicted_s: npt.ArrayLike) -> Agreement:
    """Compute the agreement of predictions with measured times, which are positive. Shape (points,) of each,
    with at least one point.
    """
    measured, predicted = np.asarray(measured_s, float), np.asarray(predicted_s, float)
    residual = float(((measured - predicted) ** 2).sum())
    total = float(((measured - measured.mean()) ** 2).sum())
    is_constant = np.ptp(measured) <= 1e-12 * measured.max()
    return Agreement(
        len(measured),
        None if is_constant else 1.0 - residual / total,
        float((abs(measured - predicted) / measured).max()),
    )


def smape(measured_s: Float64Array, predicted_s: Float64Array) -> Float64Array:
    """Symmetric mean absolute percentage error over the last axis: 0 to 2; 2 where there is no number."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        errors = 2.0 * abs(measured_s - predicted_s) / (abs(measured_s) + abs(predicted_s))
    found: Float64Array = np.where(np.isfinite(errors), errors, 2.0).mean(axis=-1)
    return found


POWERS = tuple(
    map(
        Fraction,
        (
            "0",
            "1/4",
            "1/3",
            "1/2",
            "2/3",
            "3/4",
            "4/5",
            "1",
            "5/4",
            "4/3",
            "3/2",
            "5/3",
            "7/4",
            "2",
            "9/4",
            "7/3",
            "5/2",
            "8/3",
            "11/4",
            "3",
        ),
    )
)
LOG_POWERS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2))
LEAST_SHARE = 0.0005
"""Least share of the value that a term contributes somewhere; a smaller one is no term."""
MOST_TERMS = 3
"""Largest number of terms beside the constant."""
_DEPENDENT = 1e-9

Product = tuple[Factor, ...]
Hypothesis = tuple[Product, ...]
"""The products of a normal form, without the constant, which all have."""


def factors(parameter: str, least: float) -> list[Factor]:
    """Return all that are tried of a parameter, with powers from -3 to 3, the simplest first.

    Parameters
    ----------
    least
        Its least value; logarithms of values below 1 are left out.
    """
    logs = LOG_POWERS if least >= 1.0 else LOG_POWERS[:1]
    pairs = {(sign * power, log) for sign in (1, -1) for power in POWERS for log in logs} - {(0, 0)}
    ordered = sorted(
        pairs, key=lambda pair: (pair[1] != 0, _complexity(pair[0]) + _complexity(pair[1]), pair)
    )
    return [Factor(parameter, float(power), float(log)) for power, log in ordered]


def _complexity(power: Fraction) -> int:
    return abs(power.numerator) + power.denominator


def complexity(hypothesis: Hypothesis) -> int:
    """Return 0 for the constant, and more for each factor, logarithm, fraction, and power above 1."""
    return sum(
        2 + bool(factor.log_power) + (not factor.power.is_integer()) + (abs(factor.power) > 1)
        for one in hypothesis
        for factor in one
    )


def combined(factors_of: Sequence[Sequence[Factor]]) -> Iterator[Hypothesis]:
    """Yield all sums of up to three products of factors, one or none of each parameter, the simplest
    first.
    """
    seen: set[Hypothesis] = set()
    number = len(factors_of)
    products = [chosen for size in range(1, number + 1) for chosen in combinations(range(number), size)]
    for terms in range(1, MOST_TERMS + 1):
        for structure in combinations(products, terms):
            for factor in product(*factors_of):
                hypothesis = tuple(tuple(factor[at] for at in chosen) for chosen in structure)
                if hypothesis not in seen:
                    seen.add(hypothesis)
                    yield hypothesis


@dataclass(frozen=True)
class Fitted:
    """Hypotheses with as many terms each, fitted to the same points, or one to several sets of times."""

    coefficients: Float64Array
    """Coefficients, the constant first. The last axis has terms + 1."""
    relative_residuals: Float64Array
    """Measured times less their predictions from all *other* points, as shares of the measured ones. The
    last axis has the points.
    """
    error: Float64Array
    """SMAPE of these predictions; 2 where a hypothesis cannot be fitted. One for each set of times."""

    @property
    def uncertainty(self) -> Float64Array:
        """Standard error of ``error``, about: it is a mean over points."""
        return np.asarray(
            abs(self.relative_residuals).std(axis=-1) / self.relative_residuals.shape[-1] ** 0.5
        )


def design(hypotheses: Sequence[Hypothesis], columns: Mapping[str, Float64Array]) -> Float64Array:
    """Design matrices of hypotheses with the same number of terms: 1, and each product. Shape (hypotheses,
    points, terms + 1).
    """
    known: dict[Factor, Float64Array] = {}
    points = len(next(iter(columns.values())))
    matrix = np.ones((len(hypotheses), points, len(hypotheses[0]) + 1))
    for at, hypothesis in enumerate(hypotheses):
        for term, factors_of_term in enumerate(hypothesis, start=1):
            for factor in factors_of_term:
                if factor not in known:
                    known[factor] = factor.values(columns[factor.parameter])
                matrix[at, :, term] *= known[factor]
    return matrix


def solve(matrix: Float64Array, time_s: Float64Array) -> Fitted:
    """Return least squares of relative residuals, and what each point would be by all others.

    Noise of a time is a share of it, and so are the residuals whose squares are added: otherwise the longest
    times, which are those of few ranks, would decide alone.

    Parameters
    ----------
    matrix
        f8[..., points, columns].
    time_s
        f8[..., points], positive.
    """
    is_usable = np.asarray(np.isfinite(matrix).all(axis=(-2, -1)))
    usable = np.where(is_usable[..., None, None], matrix, 0.0)
    scale = np.maximum(abs(usable).max(axis=-2, keepdims=True), 1e-300)
    q, r = np.linalg.qr(usable / scale / time_s[..., None])
    diagonal = abs(np.diagonal(r, axis1=-2, axis2=-1))
    is_usable = is_usable & (diagonal.min(axis=-1) > _DEPENDENT * diagonal.max(axis=-1))
    r = np.where(is_usable[..., None, None], r, np.eye(r.shape[-1]))
    # Divided by themselves all times are 1.
    projected = q.sum(axis=-2)
    coefficients = np.linalg.solve(r, projected[..., None])[..., 0] / scale[..., 0, :]
    left = 1.0 - (q @ projected[..., None])[..., 0]
    leverage = (q**2).sum(axis=-1)
    is_usable = is_usable & (leverage.max(axis=-1) < 1.0 - _DEPENDENT)
    residuals = left / np.maximum(1.0 - leverage, _DEPENDENT)
    error = smape(np.broadcast_to(time_s, residuals.shape), time_s * (1.0 - residuals))
    share = abs(coefficients[..., None, 1:] * usable[..., 1:]) / time_s[..., None]
    is_felt = (share.max(axis=-2) >= LEAST_SHARE).all(axis=-1)
    return Fitted(coefficients, residuals, np.where(is_usable & is_felt, error, 2.0))


def as_form(hypothesis: Hypothesis, coefficients: Float64Array) -> NormalForm:
    """Return a hypothesis with its coefficients, the constant first. Shape (terms + 1,)."""
    pairs = zip(coefficients.tolist(), ((), *hypothesis), strict=True)
    return NormalForm(tuple(Term(coefficient, one) for coefficient, one in pairs if coefficient))
