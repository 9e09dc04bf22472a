"""What calls on a path usually take, compiled: a few bytes a path, and a few nanoseconds a call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chimbuko.core.arrays import Float64Array, Table
from chimbuko.core.kernels.declare import inlined, inner, kernel

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


@inlined
def is_looked_at(seen: np.int64) -> bool:
    """Whether the call with that number on its path is learned from."""
    return bool(seen <= EACH or seen & (STRIDE - 1) == 0)


@inner
def learn_runtime(usual: Any, first: Float64Array, runtime_us: float) -> None:
    """Learn from a call, which its path has counted.

    Parameters
    ----------
    usual
        ``USUAL`` row of its path.
    first
        f8[``FIRST``]: levels of the first calls of the path.
    """
    # What took less than a clock's tick took something.
    level = level_of(max(runtime_us, 0.5))
    if usual.calls > FIRST:
        usual.level += min(1.0, max(-1.0, level - usual.level)) / MEMORY
        return
    first[usual.calls - 1] = level
    if usual.calls == FIRST:
        usual.level = np.median(first)


@kernel
def expect(calls: Table, usual: Table, clearly: float, expected_us: Float64Array) -> None:
    """Put what is usual on the path of a call in place of what is usual of its function, where that counts.

    Parameters
    ----------
    calls
        ``CALL[n]``.
    clearly
        The path counts where it differs by this factor, and ``FIRST`` calls on it are known.
    expected_us
        f8[n]: of the functions, and then of the calls.
    """
    for at in range(len(calls)):
        path = calls[at].path
        if path < len(usual) and usual[path].calls >= FIRST:
            own_us = runtime_of(usual[path].level)
            if not (expected_us[at] / clearly < own_us and own_us < expected_us[at] * clearly):
                expected_us[at] = own_us
