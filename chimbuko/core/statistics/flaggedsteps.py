"""Steps in which calls of a function were flagged, and how many in each, as sums that merge exactly.

With the number of all steps, also those without flagged calls, the moments of flagged calls per step follow.
"""

from __future__ import annotations

import numpy as np

from chimbuko.core.arrays import Int64Array, Rows
from chimbuko.core.statistics.moments import Moments

_SUMS = ("steps", "squares", "cubes", "fourths")
_MANY = np.iinfo(np.int32).max


def empty(rows: int) -> Rows:
    """Return ``FLAGGED_STEPS`` rows that change nothing when they are added."""
    table = np.zeros(rows, FLAGGED_STEPS)
    table["fewest"] = _MANY
    return table


def add(into: Rows, at: Int64Array, rows: Rows) -> None:
    """Add ``rows[i]`` to ``into[at[i]]``, in place."""
    for name in _SUMS:
        np.add.at(into[name], at, rows[name])
    np.minimum.at(into["fewest"], at, rows["fewest"])
    np.maximum.at(into["most"], at, rows["most"])


def merged(*parts: Rows) -> Rows:
    """Return the sum of the parts, one row for each function, ascending."""
    rows = np.concatenate(parts)
    numbers, at = np.unique(rows["function"], return_inverse=True)
    table = empty(len(numbers))
    table["function"] = numbers
    add(table, at, rows)
    return table


def moments_per_step(
    steps: int, flagged_steps: int, powers: tuple[int, int, int, int], fewest: int, most: int
) -> Moments:
    """Return moments of the number of flagged calls per step, over so many steps.

    Parameters
    ----------
    powers
        Sums of the number of flagged calls in a step, of its squares, cubes and fourth powers.
    fewest, most
        Minimum and maximum number of flagged calls in a step that had any.
    """
    if steps <= 0:
        return Moments()
    one, two, three, four = powers
    # In whole numbers, so that nothing is lost where the mean is large and the spread small.
    m2 = steps * two - one**2
    m3 = steps**2 * three - 3 * steps * one * two + 2 * one**3
    m4 = steps**3 * four - 4 * steps**2 * one * three + 6 * steps * one**2 * two - 3 * one**4
    return Moments(
        n=steps,
        mean=one / steps,
        m2=m2 / steps,
        m3=m3 / steps**2,
        m4=m4 / steps**3,
        minimum=fewest if flagged_steps >= steps else 0,
        maximum=most,
    )


FLAGGED_STEPS = np.dtype(
    [
        ("function", np.int32),
        ("steps", np.int64),
        ("squares", np.float64),
        ("cubes", np.float64),
        ("fourths", np.float64),
        ("fewest", np.int32),
        ("most", np.int32),
    ]
)
"""Steps of ranks in which calls of a function were flagged: their number, sums of powers of the number of
flagged calls in each, and its minimum and maximum. The function's number is the sender's.
"""
