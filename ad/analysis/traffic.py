"""What one rank sends to the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.kernels.traffic import OTHERS_ROW, count_sends
from chimbuko.core.arrays import Rows
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from chimbuko.runtime.protocol.telemetry import OTHERS, TRAFFIC

MOST_RANKS = 1 << 20
MOST_DESTINATIONS = 4096
"""Until it is taken; what goes to further ranks, or to those above, is added up."""


class Traffic:
    """Messages and bytes by destination, since they were last taken."""

    def __init__(self, program: int, rank: int) -> None:
        self._program = program
        self._rank = np.uint64(rank)
        # Memory that is 0 is not in use until it is written.
        self._places = np.zeros(MOST_RANKS, np.int32)
        self._destinations = np.zeros(MOST_DESTINATIONS, np.int32)
        self._destinations[OTHERS_ROW] = OTHERS
        self._totals = np.zeros((MOST_DESTINATIONS, 2), np.int64)
        self._count = 1
        self._reported = self._totals[:0].copy()
        self._generation = 0

    def __getstate__(self) -> dict[str, Any]:
        in_use = {"_destinations": self._destinations[: self._count], "_totals": self._totals[: self._count]}
        return self.__dict__ | in_use | {"_places": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        count = self._count
        self._places = np.zeros(MOST_RANKS, np.int32)
        self._destinations = np.zeros(MOST_DESTINATIONS, np.int32)
        self._totals = np.zeros((MOST_DESTINATIONS, 2), np.int64)
        self._destinations[:count], self._totals[:count] = state["_destinations"], state["_totals"]
        self._places[self._destinations[1:count]] = np.arange(1, count)

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

    @property
    def most(self) -> int:
        """So many rows at most are not taken."""
        return self._count

    def not_taken(self, generation: int) -> Rows:
        """``TRAFFIC`` rows of all that was not taken yet, one for each destination.

        ``generation`` says whether what was reported the last time is still there, or was taken.
        """
        if generation != self._generation:
            self._generation = generation
            if self._reported[:, 0].any():
                self._forget_reported()
        self._reported = self._totals[: self._count].copy()
        first = 0 if self._reported[OTHERS_ROW, 0] else 1
        rows = np.empty(self._count - first, TRAFFIC)
        rows["program"], rows["rank"] = self._program, self._rank
        rows["destination"] = self._destinations[first : self._count]
        rows["messages"], rows["size_bytes"] = self._reported[first:].T
        return rows

    def _forget_reported(self) -> None:
        totals = self._totals[: self._count].copy()
        totals[: len(self._reported)] -= self._reported
        self._places[self._destinations[1 : self._count]] = OTHERS_ROW
        self._totals[: self._count] = 0
        kept = np.flatnonzero(totals[:, 0])
        kept = np.concatenate([[OTHERS_ROW], kept[kept != OTHERS_ROW]])
        self._count = len(kept)
        self._totals[: self._count] = totals[kept]
        self._destinations[: self._count] = self._destinations[kept]
        self._places[self._destinations[1 : self._count]] = np.arange(1, self._count)
