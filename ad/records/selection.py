"""The calls of one step that are recorded, and how each was judged."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array

NO_ROWS = np.empty(0, np.int32)
PARALLEL = "rows", "is_anomaly", "score", "severity_us", "expected_us", "spread_us", "seen"
"""Those fields of a selection that have one element per call."""


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
    left_out: npt.NDArray[np.int32] = field(default_factory=lambda: NO_ROWS, kw_only=True)
    """Rows of abnormal calls that are not recorded, as there are too many of their function."""

    @property
    def flagged(self) -> npt.NDArray[np.int32]:
        """Rows of all abnormal calls."""
        return np.concatenate([self.rows[self.is_anomaly], self.left_out])

    def without(self, left_out: npt.NDArray[np.int32]) -> Selection:
        """The selection where these calls, by their index, are left out."""
        is_kept = np.ones(len(self.rows), np.bool_)
        is_kept[left_out] = False
        return Selection(
            *(getattr(self, name)[is_kept] for name in PARALLEL), left_out=np.sort(self.rows[left_out])
        )

    @classmethod
    def none(cls) -> Selection:
        """No call."""
        nothing = np.empty(0)
        return cls(NO_ROWS, np.empty(0, np.bool_), nothing, nothing, nothing, nothing, nothing)
