"""Models fitted to measured points, which are checked: the form that predicts each point best from all
others.

The module also chooses the points to measure: as few as a model needs, where they cost least.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.errors import ConfigError
from chimbuko.plan.hypotheses import (
    Agreement,
    Fitted,
    Hypothesis,
    agreement,
    as_form,
    combined,
    complexity,
    design,
    factors,
    solve,
)
from chimbuko.plan.normalform import Factor, PerformanceModel

# Measured times of one part of a workflow, checked: what models are fitted to.


MOST_PARAMETERS = 3
MOST_SPREAD = 100.0
"""Times of one point that differ by such a factor are not of one unit, or not of one program."""
STEEPEST = 4.0
"""Nor are those of two neighbours, where that is also more than this power of what a parameter grows by: more
than any model that is tried makes of it.
"""


@dataclass(frozen=True)
class Measured:
    """Times of one part, of each point the mean over its repetitions."""

    part: str
    parameters: tuple[str, ...]
    points: Float64Array
    """Points, no two alike, with positive coordinates. Shape (points, parameters)."""
    repetitions: tuple[Float64Array, ...]
    """Times in seconds of each point, which are positive. Shape (repetitions,) of each."""

    @property
    def time_s(self) -> Float64Array:
        """Means, f8[points]."""
        return np.array([times.mean() for times in self.repetitions])

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Least and greatest value of each parameter."""
        return {
            name: (float(column.min()), float(column.max()))
            for name, column in zip(self.parameters, self.points.T, strict=True)
        }

    def columns(self) -> dict[str, Float64Array]:
        """Return values of each parameter. Shape (points,) of each."""
        return dict(zip(self.parameters, self.points.T, strict=True))


def measured(part: str, rows: Sequence[tuple[Mapping[str, float], float]]) -> Measured:
    """Return the rows of one part: the values of its parameters, the same ones in each, and seconds.

    Raises
    ------
    ConfigError
        They cannot be what was measured.
    """
    if not rows:
        raise ConfigError(f"{part}: nothing was measured")
    parameters = tuple(rows[0][0])
    by_point: dict[tuple[float, ...], list[float]] = {}
    for values, time_s in rows:
        for name, value in (*values.items(), ("time", time_s)):
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{part}: {name} is {value:g}; values and times are positive numbers")
        by_point.setdefault(tuple(values[name] for name in parameters), []).append(time_s)
    for point, times_s in by_point.items():
        if max(times_s) > MOST_SPREAD * min(times_s):
            where = ", ".join(f"{name} = {value:g}" for name, value in zip(parameters, point, strict=True))
            raise ConfigError(
                f"{part}: times at {where} lie between {min(times_s):g} and {max(times_s):g} s; "
                "are their units mixed?"
            )
    _check_neighbours(part, parameters, {point: sum(own) / len(own) for point, own in by_point.items()})
    points = np.array(list(by_point), float).reshape(len(by_point), len(parameters))
    return Measured(part, parameters, points, tuple(np.array(times) for times in by_point.values()))


def _check_neighbours(
    part: str, parameters: Sequence[str], time_s: Mapping[tuple[float, ...], float]
) -> None:
    """Raises ConfigError where points that differ in one parameter alone have times of different units."""
    for at, name in enumerate(parameters):
        lines: dict[tuple[float, ...], list[tuple[float, float]]] = {}
        for point, mean_s in time_s.items():
            lines.setdefault(point[:at] + point[at + 1 :], []).append((point[at], mean_s))
        for line in lines.values():
            for (low, low_s), (high, high_s) in pairwise(sorted(line)):
                factor = max(low_s, high_s) / min(low_s, high_s)
                if factor > max(MOST_SPREAD, (high / low) ** STEEPEST):
                    raise ConfigError(
                        f"{part}: {low_s:g} s at {name} = {low:g}, and {high_s:g} s at {name} = {high:g}; "
                        "are their units mixed?"
                    )


def check_unit(about: str, measured_s: float, predicted_s: float) -> None:
    """Raises ConfigError where what was measured cannot be in the unit of what was predicted."""
    if predicted_s and not 1 / MOST_SPREAD < measured_s / predicted_s < MOST_SPREAD:
        raise ConfigError(
            f"{about} took {measured_s:g} s, and {predicted_s:.3g} s are predicted; are their units mixed?"
        )


POINTS_PER_PARAMETER = 5


def points_needed(parameters: int) -> int:
    """Return the number of points that a model needs: 5, 11, 17 for 1, 2, 3 parameters."""
    return 6 * parameters - 1


def sampling_plan(values: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Return points to measure, 6h - 1 for h parameters.

    Along each parameter five, while all others have their least value, where a run costs least; and for each
    further parameter two more, in the middle and at the far end of it and the one before: they show whether
    both act together, and what a parameter does where another no longer covers it.

    Parameters
    ----------
    values
        Values of each parameter that can be measured, at least five. From more than five, the least, the
        greatest, and three between them are taken.

    Raises
    ------
    ConfigError
        A parameter has too few values, or one that is not positive.
    """
    chosen = {name: _spread(name, given) for name, given in values.items()}
    cheapest = {name: of_one[0] for name, of_one in chosen.items()}
    plan = [cheapest]
    plan += [{**cheapest, name: value} for name, of_one in chosen.items() for value in of_one[1:]]
    names = list(chosen)
    for before, name in pairwise(names):
        plan += [{**cheapest, before: chosen[before][at], name: chosen[name][at]} for at in (2, 4)]
    return plan


def _spread(name: str, given: Sequence[float]) -> list[float]:
    for value in given:
        if not (value > 0 and math.isfinite(value)):
            raise ConfigError(f"{name} = {value:g}: values of a parameter are positive numbers")
    values = sorted(set(given))
    if len(values) < POINTS_PER_PARAMETER:
        raise ConfigError(
            f"{name}: {len(values)} different values; a model needs {POINTS_PER_PARAMETER} of each parameter"
        )
    last = len(values) - 1
    return [values[round(at * last / (POINTS_PER_PARAMETER - 1))] for at in range(POINTS_PER_PARAMETER)]


REPLICATES = 200
KEPT = 12
"""Number of the best hypotheses that are kept; among these each set of resampled times chooses anew."""
FACTORS_KEPT = 5
"""Number of factors that are kept of each parameter, where there are several."""
LEAST_REPETITIONS = 3
"""Least number of repetitions of each point for its own times to be resampled; else residuals are."""
_SAME = 1e-9


@dataclass(frozen=True)
class Fit:
    """A model with what it was fitted to."""

    measured: Measured
    model: PerformanceModel
    error: float
    """SMAPE of each point as all others predict it, as a share."""
    agreement: Agreement
    """Agreement with the points that the model was fitted to."""

    @property
    def idle_parameters(self) -> tuple[str, ...]:
        """Parameters on which the time does not depend."""
        return tuple(name for name in self.measured.parameters if name not in self.model.form.parameters)


@dataclass(frozen=True)
class HeldOut:
    """Agreement of a model with points that it was not fitted to."""

    agreement: Agreement
    clamps: tuple[str, ...]
    """Points at which a model was asked for what it does not stand for, in words."""


def fit(measured: Measured) -> Fit:
    """Return the model of one part of a workflow, with 200 replicates for intervals.

    Of Extra-P's forms, and those with negative powers and with roots of logarithms, the one that predicts
    points best from all others; of those that chance may put behind it, the simplest. Extra-P itself is not
    the engine: it needs numpy before 2 and 0.6 GB with Qt, and with 2 % noise was off by 3.4 % at worst where
    this is by 1.8 % (``tests/plan/test_fitting.py`` prints both). Residuals are relative. The
    replicates are fitted to resampled times: to those of the same point where each has three or more, and to
    resampled residuals otherwise.

    Raises
    ------
    ConfigError
        There are too few points, or of a parameter too few values.
    """
    _check(measured)
    time_s, columns = measured.time_s, measured.columns()
    ranked = _ranked(_hypotheses(measured), columns, time_s)[:KEPT]
    best = ranked[0]
    form = as_form(best.hypothesis, best.coefficients)
    resampled = _resampled(measured, form.values(columns), best.relative_residuals)
    replicates = _choices([one.hypothesis for one in ranked], columns, resampled)
    model = PerformanceModel(
        form,
        {name: measured.ranges[name] for name in form.parameters},
        tuple(as_form(hypothesis, coefficients) for hypothesis, coefficients in replicates),
    )
    predicted = np.broadcast_to(form.values(columns), time_s.shape)
    return Fit(measured, model, best.error, agreement(time_s, predicted))


def try_on(fitted: Fit, held_out: Measured) -> HeldOut:
    """Compare what a model predicts with further points of its part.

    Raises
    ------
    ConfigError
        They lack a parameter of the model.
    """
    part = held_out.part
    for name in fitted.model.form.parameters:
        if name not in held_out.parameters:
            raise ConfigError(f"points of '{part}' that are held out: no column '{name}'")
    rows = [dict(zip(held_out.parameters, row, strict=True)) for row in held_out.points.tolist()]
    estimates = [fitted.model.at(row) for row in rows]
    clamps = dict.fromkeys(f"{part}: {clamp}" for one in estimates for clamp in one.clamps)
    return HeldOut(agreement(held_out.time_s, [one.time_s for one in estimates]), tuple(clamps))


@dataclass(frozen=True)
class _Ranked:
    hypothesis: Hypothesis
    coefficients: Float64Array
    relative_residuals: Float64Array
    error: float
    uncertainty: float


def _check(measured: Measured) -> None:
    number, points = len(measured.parameters), len(measured.points)
    if not 1 <= number <= MOST_PARAMETERS:
        raise ConfigError(f"{measured.part}: {number} parameters; a model has 1 to {MOST_PARAMETERS}")
    for name, (low, high) in measured.ranges.items():
        if low == high:
            raise ConfigError(
                f"{measured.part}: {name} is {low:g} at all points; vary it, or leave its column out"
            )
    if points < points_needed(number):
        raise ConfigError(
            f"{measured.part}: {points} different points; a model of {number} "
            f"parameter{'s' * (number > 1)} needs {points_needed(number)} ('chimbuko model points' has them)"
        )


def _hypotheses(measured: Measured) -> list[Hypothesis]:
    """Return the hypotheses to try, the constant first."""
    if len(measured.parameters) == 1:
        (name,) = measured.parameters
        each = factors(name, measured.ranges[name][0])
        return [(), *(((factor,),) for factor in each)]
    return [(), *combined([_best_factors(measured, name) for name in measured.parameters])]


def _best_factors(measured: Measured, name: str) -> list[Factor]:
    """Return the best factors of one parameter, where all others stay the same."""
    tried = factors(name, measured.ranges[name][0])
    hypotheses: list[Hypothesis] = [((factor,),) for factor in tried]
    column, time_s = measured.columns()[name], measured.time_s
    fits = [solve(design(hypotheses, {name: column[line]}), time_s[line]) for line in _lines(measured, name)]
    errors = np.mean([one.error for one in fits], axis=0)
    uncertainties = np.mean([one.uncertainty for one in fits], axis=0) / len(fits) ** 0.5
    order = _order(hypotheses, errors.tolist(), uncertainties.tolist())
    return [tried[at] for at in order[:FACTORS_KEPT]]


def _lines(measured: Measured, name: str) -> list[list[int]]:
    """Sets of five points or more that differ in this parameter alone."""
    at = measured.parameters.index(name)
    others = np.delete(measured.points, at, axis=1)
    order = sorted(range(len(others)), key=lambda row: tuple(others[row]))
    groups = [list(group) for _, group in groupby(order, key=lambda row: tuple(others[row]))]
    lines = [group for group in groups if len(group) >= POINTS_PER_PARAMETER]
    if not lines:
        most = max(map(len, groups))
        raise ConfigError(
            f"{measured.part}: {name} has {most} different values while all other parameters stay the same; "
            f"{POINTS_PER_PARAMETER} are needed ('chimbuko model points' has such points)"
        )
    return lines


def _by_terms(hypotheses: Iterable[Hypothesis]) -> list[list[Hypothesis]]:
    return [list(group) for _, group in groupby(sorted(hypotheses, key=len), key=len)]


def _ranked(
    hypotheses: Sequence[Hypothesis], columns: Mapping[str, Float64Array], time_s: Float64Array
) -> list[_Ranked]:
    """Return the best first; of those that are equally good, the simplest."""
    found: list[_Ranked] = []
    for group in _by_terms(hypotheses):
        fitted = solve(design(group, columns), time_s)
        columns_of = (fitted.coefficients, fitted.relative_residuals, fitted.error, fitted.uncertainty)
        found += [
            _Ranked(hypothesis, coefficients, residuals, float(error), float(uncertainty))
            for hypothesis, coefficients, residuals, error, uncertainty in zip(
                group, *columns_of, strict=True
            )
        ]
    order = _order(
        [one.hypothesis for one in found],
        [one.error for one in found],
        [one.uncertainty for one in found],
    )
    return [found[at] for at in order]


def _order(
    hypotheses: Sequence[Hypothesis], errors: Sequence[float], uncertainties: Sequence[float]
) -> list[int]:
    """Return the numbers of hypotheses: first those that chance may put behind the best, the simplest of them
    first.
    """
    order = sorted(range(len(errors)), key=errors.__getitem__)
    limit = errors[order[0]] + uncertainties[order[0]] + _SAME
    near = [at for at in order if errors[at] <= limit]
    return sorted(near, key=lambda at: complexity(hypotheses[at])) + order[len(near) :]


def _resampled(measured: Measured, fitted_s: Float64Array, residuals: Float64Array) -> Float64Array:
    """Times as they could have been measured as well, f8[replicates, points]."""
    draw = np.random.default_rng(len(fitted_s))
    if min(map(len, measured.repetitions)) >= LEAST_REPETITIONS:
        each = [draw.choice(times, (REPLICATES, len(times))).mean(axis=1) for times in measured.repetitions]
        return np.stack(each, axis=1)
    centred = residuals - residuals.mean()
    drawn = draw.choice(centred, (REPLICATES, len(residuals)))
    positive_s = np.where(fitted_s > 0.0, fitted_s, measured.time_s)
    return positive_s * np.maximum(1.0 + drawn, 0.01)


def _choices(
    hypotheses: Sequence[Hypothesis], columns: Mapping[str, Float64Array], times_s: Float64Array
) -> list[tuple[Hypothesis, Float64Array]]:
    """Return the best hypothesis and its coefficients for each set of times. Shape (replicates, points)."""
    fits: list[Fitted] = []
    for hypothesis in hypotheses:
        matrix = design([hypothesis], columns)
        fits.append(solve(np.broadcast_to(matrix, (len(times_s), *matrix.shape[1:])), times_s))
    errors = np.stack([one.error for one in fits])
    chosen = np.where(errors < _SAME, 0.0, errors).argmin(axis=0)
    return [(hypotheses[at], fits[at].coefficients[row]) for row, at in enumerate(chosen.tolist())]
