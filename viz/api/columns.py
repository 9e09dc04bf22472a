"""Numbers in columns: less to send than one object for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def differences(values: npt.NDArray[np.int64]) -> list[int]:
    """The first of ``values``, i8[n], and of the others how much they exceed the one before."""
    found: list[int] = np.diff(values, prepend=values.dtype.type(0)).tolist()
    return found
