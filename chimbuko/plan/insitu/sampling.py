"""Which points to measure: as few as a model needs, where they cost least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from chimbuko.core.errors import ConfigError

POINTS_PER_PARAMETER = 5


def points_needed(parameters: int) -> int:
    """5, 11, 17 for 1, 2, 3 parameters."""
    return 6 * parameters - 1


def sampling_plan(values: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Points to measure, 6h - 1 for h parameters.

    Along each parameter five, while all others have their least value, where a run costs least; and for each
    further parameter two more, in the middle and at the far end of it and the one before: they show whether
    both act together, and what a parameter does where another no longer covers it.

    Parameters
    ----------
    values
        Of each parameter those that can be measured, five at least; of more than five the least, the
        greatest, and three between them are taken.

    Raises
    ------
    ConfigError
        Of a parameter there are too few, or some are not positive.
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
