"""The calls of one step that are recorded, and how each was judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.moments import Float64Array


@dataclass(frozen=True)
class Selection:
    """Parallel arrays, one element per call."""

    rows: npt.NDArray[np.int32]
    """Rows of the call table, ascending."""
    is_anomaly: npt.NDArray[np.bool_]
    """The others are normal calls, kept for comparison."""
    score: Float64Array
    severity_us: Float64Array
    """Time lost against what was expected."""
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array
    """Calls of the function known when it was judged."""

    @classmethod
    def none(cls) -> Selection:
        """No call."""
        nothing = np.empty(0)
        return cls(np.empty(0, np.int32), np.empty(0, np.bool_), nothing, nothing, nothing, nothing, nothing)
