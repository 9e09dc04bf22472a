"""What calls on a path usually take, compiled: a few bytes a path, and a few nanoseconds a call."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from chimbuko.arrays import Table
from chimbuko.kernels.declare import kernel
from chimbuko.kernels.paths import OTHERS

FIRST = 8
"""So many calls are kept one by one, and the usual runtime begins as their median."""
MEMORY = 64
"""A later call moves it by this part of its distance, and of a doubling at most."""
EACH = 256
"""From so many calls on only every ``STRIDE``-th is looked at."""
STRIDE = 16


@kernel
def level_of(runtime_us: float) -> float:
    """The logarithm of a runtime to base 2, straight between powers of two: quicker than a logarithm."""
    mantissa, exponent = math.frexp(runtime_us)
    return exponent + 2.0 * mantissa - 2.0


@kernel
def runtime_of(level: float) -> float:
    """The runtime of a level, in µs."""
    exponent = math.floor(level)
    return math.ldexp(1.0 + level - exponent, int(exponent))


@kernel
def learn_usual(
    calls: Table,
    total: int,
    is_named: npt.NDArray[np.uint8],
    use_inclusive: bool,
    usual: Table,
    first: npt.NDArray[np.float64],
) -> None:
    """Add the calls that ended in a step to what is usual on their paths.

    Parameters
    ----------
    calls, total, is_named
        As in ``follow_paths``, which has given each call its path.
    use_inclusive
        Whether runtimes are those with the calls inside.
    usual
        ``USUAL[paths]``.
    first
        f8[paths, ``FIRST``]: levels of the first calls of each path.
    """
    for at in range(total):
        call = calls[np.uint64(at)]
        if call.exit == 0 or call.doubts != 0 or is_named[call.function] == 0 or call.path == OTHERS:
            continue
        row = usual[np.uint64(call.path)]
        row.calls += 1
        seen = row.calls
        if seen > EACH and seen & (STRIDE - 1) != 0:
            continue
        runtime_us = np.float64(call.exit - call.entry)
        if not use_inclusive:
            runtime_us -= np.float64(call.child_us)
        # What took less than a clock's tick took something.
        level = level_of(max(runtime_us, 0.5))
        if seen <= FIRST:
            first[call.path, seen - 1] = level
            if seen == FIRST:
                row.level = np.median(first[call.path])
        else:
            row.level += min(1.0, max(-1.0, level - row.level)) / MEMORY
