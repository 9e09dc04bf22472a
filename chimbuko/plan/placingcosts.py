"""What an agent takes for a second, a step and a row of a trace, from what it took in intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from itertools import combinations

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.plan.usual import UnitCosts, usual
from chimbuko.runtime.protocol.telemetry import AgentLoad

_TRUST = 0.1
"""How much what is usual counts beside one interval: it decides what intervals that are alike cannot."""
_TURNS = 3
"""Until what is usual has its weight; further ones change what is found by less than a thousandth."""


def unit_costs(loads: Sequence[AgentLoad]) -> UnitCosts:
    """By least squares of relative errors, none below 0; what is usual of no interval.

    Where intervals are too much alike to divide their CPU time among seconds, steps and rows, it is divided
    as is usual, so that one interval is enough for a prediction of others like it.
    """
    known = [one for one in loads if one.cpu_s > 0]
    if not known:
        return usual().cpu_s
    unknowns = np.array([_counts(one) for one in known])
    taken_s = np.array([one.cpu_s for one in known])
    costs = np.array(astuple(usual().cpu_s))
    # Unknowns are multiples of what is usual: those are alike in size.
    multiples = unknowns * costs / taken_s[:, np.newaxis]
    scale = float(np.median(1.0 / multiples.sum(axis=1)))
    found = np.full(len(costs), scale)
    for _ in range(_TURNS):
        # The departure counts as a share of the larger one: what takes eight times as long as usual is not
        # drawn down to it.
        weight = _TRUST / np.maximum(found, scale)
        matrix = np.vstack([multiples, np.diag(weight)])
        found = _not_negative(matrix, np.concatenate([np.ones(len(known)), weight * scale]))
    return UnitCosts(*(found * costs).tolist())


def predictions_s(loads: Sequence[AgentLoad]) -> Float64Array:
    """CPU time of each interval as all others predict it, f8[loads]; by what is usual where it is alone."""
    return np.array(
        [unit_costs([*loads[:at], *loads[at + 1 :]]).cpu_s(*_counts(one)) for at, one in enumerate(loads)]
    )


def _not_negative(matrix: Float64Array, wanted: Float64Array) -> Float64Array:
    """Least squares, f8[unknowns], none below 0: the best of all choices of those that are 0.

    As exact as scipy's for three unknowns, and does not load scipy into each process that shows advice.
    """
    unknowns = matrix.shape[1]
    best, least = np.zeros(unknowns), float("inf")
    for chosen in (list(c) for size in range(1, unknowns + 1) for c in combinations(range(unknowns), size)):
        found = np.zeros(unknowns)
        found[chosen] = np.linalg.lstsq(matrix[:, chosen], wanted, rcond=None)[0]
        error = float(((matrix @ found - wanted) ** 2).sum())
        if found.min() >= 0.0 and error < least:
            best, least = found, error
    return best


def _counts(load: AgentLoad) -> tuple[float, float, float]:
    return load.seconds, float(load.steps), float(load.rows)
