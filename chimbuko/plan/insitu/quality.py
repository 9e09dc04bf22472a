"""How well predictions agree with what was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array


@dataclass(frozen=True)
class Agreement:
    """Of predictions with measurements."""

    points: int
    r_squared: float | None
    """Equation 10; None where all measurements are the same."""
    max_relative_error: float
    """The greatest difference, as a share of what was measured."""


def agreement(measured_s: npt.ArrayLike, predicted_s: npt.ArrayLike) -> Agreement:
    """Of f8[points] each, of which there is at least one; measured times are positive."""
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
