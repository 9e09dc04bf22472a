"""Counting steps of many ranks at once, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.declare import kernel
from chimbuko.core.kernels.merge import add_value


@kernel
def add_values(
    into: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> None:
    """Add ``values`` f8[n], one after the other, to the moments ``into[rows[i]]``, f8[rows, 7]."""
    for i in range(len(rows)):
        add_value(into[rows[i]], values[i])
