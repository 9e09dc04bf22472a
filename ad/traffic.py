"""What one rank sends to the others."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.kernels.traffic import OTHERS_ROW, count_sends
from chimbuko.trace.schema import EventType, StreamNames, TraceStep
from chimbuko.views import OTHERS, TRAFFIC, Rows

MOST_RANKS = 1 << 20
MOST_DESTINATIONS = 4096
"""Between two times that it is handed out; what goes to further ranks, or to those above, is added up."""


class Traffic:
    """Messages and bytes by destination, since they were last handed out."""

    def __init__(self, program: int, rank: int) -> None:
        self._program = program
        self._rank = np.uint64(rank)
        # Memory that is 0 is not in use until it is written.
        self._places = np.zeros(MOST_RANKS, np.int32)
        self._destinations = np.zeros(MOST_DESTINATIONS, np.int32)
        self._destinations[OTHERS_ROW] = OTHERS
        self._totals = np.zeros((MOST_DESTINATIONS, 2), np.int64)
        self._count = 1

    def read(self, step: TraceStep, names: StreamNames) -> None:
        """Count what was sent in a step."""
        if len(step.comms):
            self._count = count_sends(
                step.comms,
                self._rank,
                np.uint64(names.event_type_id(EventType.SEND)),
                self._places,
                self._destinations,
                self._totals,
                self._count,
            )

    def hand_out(self) -> Rows:
        """``TRAFFIC`` rows, one for each destination."""
        first = 0 if self._totals[OTHERS_ROW, 0] else 1
        rows = np.empty(self._count - first, TRAFFIC)
        rows["program"], rows["rank"] = self._program, self._rank
        rows["destination"] = self._destinations[first : self._count]
        rows["messages"], rows["size_bytes"] = self._totals[first : self._count].T
        self._places[self._destinations[1 : self._count]] = OTHERS_ROW
        self._totals[: self._count] = 0
        self._count = 1
        return rows
