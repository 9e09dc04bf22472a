"""Streams for the tests of followed files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import StreamNames
from tests.patience import PATIENCE_S

NAMES = StreamNames(timers={0: "main"}, event_types={0: "ENTRY", 1: "EXIT", 2: "SEND", 3: "RECV"})
ROWS = 1000
STEP_BYTES = 49152
"""What the data of a step of that many events takes: whole pages."""


def events(step: int, rows: int = ROWS) -> UInt64Array:
    """Rows that can be told from those of other steps, and from zeros."""
    return np.full((rows, 6), step + 1, np.uint64)


def write_step(writer: StreamWriter, step: int, rows: int = ROWS, comms: int = 0, counters: int = 0) -> None:
    """One step with three arrays, of which each may be empty."""
    writer.write_step(
        events(step, rows),
        np.full((comms, 8), 1000 + step, np.uint64),
        np.full((counters, 6), 2000 + step, np.uint64),
        NAMES,
    )


def opened(path: Path) -> StreamWriter:
    """A BP5 stream as TAU writes it."""
    return StreamWriter(path, "BP5")


def wait_until(condition: Callable[[], bool]) -> None:
    """Give others the time they need; a test fails by what it finds, not by how long that took."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "it never came"
        time.sleep(0.01)
