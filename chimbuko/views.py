"""What the parameter server knows for others beside the model: of ranks, counters, messages, agents."""

from __future__ import annotations

import msgspec
import numpy as np

FLAGGED = np.dtype(
    [
        ("program", np.int32),
        ("rank", np.int32),
        ("function", np.int32),
        ("anomalies", np.int32),
        ("severity_us", np.float64),
        ("highest_score", np.float64),
    ]
)
"""Flagged calls of one function on one rank; the function's number is the sender's."""


class ViewDelta(msgspec.Struct, frozen=True, array_like=True):
    """What changed at one agent, for the views."""

    flagged: bytes = b""
    """``FLAGGED`` rows."""


class ViewChanges(msgspec.Struct, frozen=True, array_like=True):
    """What changed in the views since the last frame."""
