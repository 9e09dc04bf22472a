"""Small loops over arrays, compiled; used by other kernels.

numpy has each of them, but within a kernel numba makes of ``sort``, ``searchsorted``, ``sum`` or an
assignment to a slice so much code that compiling took a third of its time for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.declare import Whole, inner

Ascending = npt.NDArray[Any]


@inner
def first_above(values: Ascending, value: Any) -> int:
    """Return the index of the first of ascending ``values`` that is greater; their number where none is, or
    for NaN.
    """
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if value < values[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def first_from(values: Ascending, value: Any) -> int:
    """Return the index of the first of ascending ``values`` that is not less; their number where none is."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def sort(values: npt.NDArray[np.int32]) -> None:
    """Sort int32[n] in place, as a heap."""
    end = len(values)
    begin = end // 2
    while end > 1:
        if begin > 0:
            begin -= 1
            value = values[begin]
        else:
            end -= 1
            value = values[end]
            values[end] = values[0]
        at = begin
        child = 2 * at + 1
        while child < end:
            if child + 1 < end and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[at] = values[child]
            at = child
            child = 2 * at + 1
        if at < end:
            values[at] = value


@inner
def nones(count: Whole) -> npt.NDArray[np.int32]:
    """Return int32[count], all -1."""
    values = np.empty(count, np.int32)
    for at in range(count):
        values[at] = -1
    return values


@inner
def zeros(count: Whole) -> npt.NDArray[np.int64]:
    """Return int64[count], all 0."""
    values = np.empty(count, np.int64)
    for at in range(count):
        values[at] = 0
    return values


@inner
def fill(values: npt.NDArray[np.float64], value: float) -> None:
    """Set all of float64[n]."""
    for at in range(len(values)):
        values[at] = value


@inner
def copy(into: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> None:
    """Copy float64[n]."""
    for at in range(len(values)):
        into[at] = values[at]


@inner
def total(values: npt.NDArray[np.float64]) -> float:
    """Return the sum of float64[n], added up from the first to the last."""
    found = 0.0
    for at in range(len(values)):
        found += values[at]
    return found
