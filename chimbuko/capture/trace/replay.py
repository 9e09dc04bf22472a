"""Feeds a recorded stream to readers as if it were being written now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from chimbuko.capture.trace.discovery import BP_FILE, SST
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import TraceStep

LOSSLESS_SST_PARAMETERS = {"RendezvousReaderCount": "1", "QueueFullPolicy": "Block", "QueueLimit": "4"}
"""A replay waits for its reader, as no application should."""

END_WAIT_S = 1.0
"""A recorded file that offers no further step for so long was never closed: its writer was killed."""


class Replayed(msgspec.Struct, frozen=True):
    """Result of the replay of one stream."""

    stream: str
    steps: int
    rows: int
    complaint: str
    """Why it is not all that had been traced; empty if it is."""


class Pace(msgspec.Struct, frozen=True):
    """Pace of a replay: the time at which each step is due."""

    factor: float
    """Factor by which the replay is faster than the trace's own time; infinite for as fast as possible."""
    start_us: int
    """Trace time of the replay's beginning."""

    def due_s(self, step: TraceStep) -> float:
        """Seconds from the replay's beginning at which ``step`` was complete; at once if it has no events."""
        interval_us = step.interval_us()
        return max(0, interval_us[1] - self.start_us) / 1e6 / self.factor if interval_us else 0.0


def start_of(path: Path) -> int | None:
    """Trace time at which a recorded stream begins, in µs; None if it has no events.

    Raises
    ------
    TraceFormatError
        It cannot be opened.
    """
    with StreamReader(path, BP_FILE, END_WAIT_S) as reader:
        intervals = (step.interval_us() for step in steps_of(reader))
        return next((interval_us[0] for interval_us in intervals if interval_us), None)


def steps_of(reader: StreamReader) -> Iterator[TraceStep]:
    """Yield all steps of a recorded stream up to a damaged one: a writer that was killed leaves half a
    step.
    """
    try:
        while isinstance(step := reader.next_step(END_WAIT_S), TraceStep):
            yield step
    except TraceFormatError:
        return


def replay_stream(
    source: Path,
    target: Path,
    engine: str,
    pace: Pace,
    config_file: Path | None,
    wait_for_others: Callable[[], object],
) -> Replayed:
    """Write the recorded stream ``source`` again as ``target``, step by step and name by name.

    Parameters
    ----------
    engine
        ``SST``, ``BP4`` or ``BP5``.
    config_file
        ADIOS2 settings that replace the engine and its lossless settings.
    wait_for_others
        Called once ``target`` is open (over SST: has its reader); time runs from its return.

    Raises
    ------
    TraceFormatError
        ``source`` cannot be opened, or ``target`` not written.
    """
    parameters = LOSSLESS_SST_PARAMETERS if engine == SST else {}
    steps = rows = 0
    complaint = ""
    with (
        StreamReader(source, BP_FILE) as reader,
        StreamWriter(target, engine, parameters, config_file) as writer,
    ):
        wait_for_others()
        began = time.monotonic()
        while not complaint:
            try:
                step = reader.next_step(END_WAIT_S)
            except TraceFormatError as error:
                complaint = f"ends with a damaged step ({error})"
                break
            if isinstance(step, Waiting):
                complaint = "" if step is Waiting.END else "was never closed; replayed what is there"
                break
            time.sleep(max(0.0, began + pace.due_s(step) - time.monotonic()))
            writer.write_step(
                step.events, step.comms, step.counters, reader.names, step.details, step.operations
            )
            steps += 1
            rows += step.rows
    return Replayed(source.name, steps, rows, complaint)
