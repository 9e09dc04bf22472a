"""Calls of the server's kernels: a small delta is merged."""

from __future__ import annotations

import numpy as np

from chimbuko.core.calls.pathtable import PATH
from chimbuko.core.calls.record import CounterStatistics, StepCount
from chimbuko.core.kernels.decay import ERA_CALLS
from chimbuko.core.kernels.paths import NONE
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, PROFILE
from chimbuko.pserver.state.functions import Decay
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Delta, FunctionName
from chimbuko.runtime.protocol.telemetry import FLAGGED, ProgramPaths, StreamCounters, TelemetryDelta


def call_kernels() -> None:
    """Call all kernels of the server."""
    counters = StreamCounters(0, 0, [CounterStatistics("TIME", 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0)])
    for schema in (PROFILE, BUCKETED_PROFILE):
        state = ServerState(schema=schema)
        table = schema.empty(1)
        table[0, 0] = 2000.0
        table[0, schema.narrow :] = 10.0
        state.apply(
            Delta(
                agent="",
                incarnation=0,
                sequence=1,
                since=1,
                closed_epochs={},
                names=[FunctionName(0, 0, "main")],
                rows=np.zeros(1, np.int32).tobytes(),
                table=schema.pack(table),
                steps=[StepCount(0, 0, 0, 0, 1, 1, 0, 0.0)],
                health=[],
                telemetry=TelemetryDelta(
                    flagged=np.zeros(1, FLAGGED).tobytes(), counters=[counters], paths=[_small_paths()]
                ),
            )
        )
        state.publish(0.0)
        state.frame()
    decay, one = Decay(), np.ones(1, np.uint16)
    decay.add(np.zeros(1, np.int64), one, one, np.array([2 * ERA_CALLS]))
    decay.end_epoch()


def _small_paths() -> ProgramPaths:
    """Return the call paths of one call of one function."""
    rows = np.zeros(2, PATH)
    rows["parent"] = rows["function"][0] = NONE
    rows["calls"][1] = 1
    return ProgramPaths(0, rows.tobytes())
