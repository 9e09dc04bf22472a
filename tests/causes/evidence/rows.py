"""Raw rows made by hand: calls one after the other, or inside each other, in steps of a flight recorder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chimbuko.causes.evidence.recordedrows import Interval, RankIdentity, RecordedRows
from chimbuko.core.calls.rawrows import RecordedStep
from chimbuko.core.traceschema import StreamNames

TIMERS = ("main", "relax", "MPI_Recv()", "MPI_Allreduce()", "MPI Collective Sync", "sweep")
NAMES = StreamNames(event_types={0: "ENTRY", 1: "EXIT", 2: "SEND", 3: "RECV"}, timers=dict(enumerate(TIMERS)))
ENTRY, EXIT, RECEIVED = 0, 1, 3
MAIN, RELAX, RECV, ALLREDUCE, SYNC, SWEEP = range(len(TIMERS))
PLACE = RankIdentity(0, 5, "node1")
MS = 1000

Row = tuple[int, int, int]
"""Time, kind and timer."""


def packed(rows: Sequence[Row], thread: int = 0) -> bytes:
    """Rows as the recorder has them."""
    coded = [(time_us, timer | thread << 32 | kind << 48) for time_us, kind, timer in rows]
    return np.array(coded, np.uint64).tobytes()


def step(
    number: int, events: Sequence[Row], opened: Sequence[Row] = (), is_whole: bool = True
) -> RecordedStep:
    """A step of one thread."""
    times = [time_us for time_us, *_ in events] or [0]
    return RecordedStep(
        number, min(times), max(times), packed(opened), packed(events), b"", b"", is_whole=is_whole
    )


def call(timer: int, begin_us: int, end_us: int, *inside: list[Row]) -> list[Row]:
    """One call, with the rows of those inside it."""
    return [(begin_us, ENTRY, timer), *(row for rows in inside for row in rows), (end_us, EXIT, timer)]


def rows_of(*steps: RecordedStep) -> RecordedRows:
    """Those of the steps."""
    return RecordedRows(PLACE, steps, NAMES)


def between(begin_ms: float, end_ms: float, least_ms: float, least_own_ms: float = 0.0) -> Interval:
    """Interval that is asked for."""
    return Interval(round(begin_ms * MS), round(end_ms * MS), least_ms * MS, least_own_ms * MS)
