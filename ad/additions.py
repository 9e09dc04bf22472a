"""What is recorded of selected calls beside their judgement: metrics, and launches of GPU kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import Table
from chimbuko.packed import COUNTER, MEMBER, NO_CALL

Int32Array = npt.NDArray[np.int32]


def table(dtype: np.dtype[np.void], rows: int) -> Table:
    """A new table whose rows kernels can fill."""
    return np.empty(rows, dtype).view(np.recarray)


@dataclass(frozen=True)
class CallMetrics:
    """What the metrics of selected calls rose by, call by call in the order of their selection."""

    counts: Int32Array
    """i4[calls]: how many of the rows are the call's."""
    rows: Table
    """``COUNTER`` rows."""

    @classmethod
    def none(cls, calls: int) -> Self:
        """For a stream without metrics."""
        return cls(np.zeros(calls, np.int32), table(COUNTER, 0))


@dataclass(frozen=True)
class CallLaunches:
    """The calls that launched selected ones on a GPU, in the order of their selection."""

    steps: Int32Array
    """i4[calls]: with ``rows`` the launching call, or NO_CALL."""
    rows: Int32Array
    counts: Int32Array
    """i4[calls]: how many of the frames are the launching call's."""
    frames: Table
    """``MEMBER`` rows: call stacks at the launch."""

    @classmethod
    def none(cls, calls: int) -> Self:
        """For calls that no other has launched."""
        nowhere = np.full(calls, NO_CALL, np.int32)
        return cls(nowhere, nowhere, np.zeros(calls, np.int32), table(MEMBER, 0))
