"""What the analysis of a stream reports beside its statistics: traffic, rank speed, flagged steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chimbuko.core.arrays import Rows
from chimbuko.core.statistics import flaggedsteps
from chimbuko.runtime.protocol.telemetry import PACE, TRAFFIC


@dataclass(frozen=True)
class StreamTelemetry:
    """Of one stream."""

    traffic: Rows
    """``TRAFFIC``: what was sent and not taken."""
    paces: Rows
    """``PACE`` of windows that have ended; functions are the stream's timer ids."""
    flagged_steps: Rows = field(default_factory=lambda: flaggedsteps.empty(0))
    """``FLAGGED_STEPS``: what was flagged and not taken; functions are timer ids."""

    @classmethod
    def none(cls) -> StreamTelemetry:
        """Nothing."""
        return cls(np.empty(0, TRAFFIC), np.empty(0, PACE))

    def __bool__(self) -> bool:
        return bool(len(self.traffic) or len(self.paces) or len(self.flagged_steps))
