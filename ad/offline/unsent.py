"""Statistics that a stream has learned and not sent yet. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chimbuko.ad.analysis.streamanalysis import Findings, StreamIdentity
from chimbuko.ad.analysis.streamstatistics import Learned, merged_learned
from chimbuko.ad.analysis.streamtelemetry import MOST_ROWS, StreamTelemetry
from chimbuko.ad.modelsync.agentstatistics import StreamShare
from chimbuko.core.arrays import as_table
from chimbuko.core.calls.pathtable import PATH, forget_calls
from chimbuko.core.calls.record import StepCount
from chimbuko.core.kernels.paths import add_to_copy
from chimbuko.core.statistics.schema import TableSchema


class Unsent:
    """Findings of one stream that add up until they are sent: the outbox of a stream in its own process."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._learned = Learned(np.empty(0, np.int64), schema.empty(0))
        self._steps: list[StepCount] = []
        self._telemetry = StreamTelemetry.none()
        self._paths = as_table(np.empty(0, PATH))

    def add(self, findings: Sequence[Findings], steps: Sequence[StepCount]) -> None:
        """Add what was handed out, in its order, and the steps in which it was learned."""
        self._steps += steps
        for found in findings:
            self._learned = merged_learned(self._schema, self._learned, found.learned)
            paces = np.concatenate([self._telemetry.paces, found.telemetry.paces])[-MOST_ROWS:]
            self._telemetry = replace(found.telemetry, paces=paces)
            paths = as_table(np.zeros(len(found.paths), PATH))
            add_to_copy(self._paths, len(self._paths), as_table(found.paths), paths)
            self._paths = paths

    def share(self, identity: StreamIdentity, timers: Mapping[int, str]) -> StreamShare:
        """Return the statistics as part of the agent's next delta; ``timers`` are names of its functions."""
        return StreamShare(
            program=identity.program,
            rank=identity.rank,
            timers=timers,
            learned=self._learned,
            steps=self._steps,
            telemetry=self._telemetry,
            paths=self._paths,
        )

    def sent(self, has_paths: bool) -> None:
        """Forget what was sent, which are the paths only now and then."""
        self._learned = Learned(np.empty(0, np.int64), self._schema.empty(0))
        self._steps, self._telemetry = [], StreamTelemetry.none()
        if has_paths:
            forget_calls(self._paths)
