"""Count of the events of a process that are in no stream, because its writer has died."""

from __future__ import annotations

import os
from pathlib import Path

from chimbuko.core.errors import TraceFormatError
from chimbuko.core.units import number_of
from chimbuko.instrument.recorder.ring import ProcessFile, Ring


def unwritten(path: Path) -> str:
    """Describe in a sentence what is lost of a process; empty if nothing is.

    The number of events may be too large by those of one step that was written and not noted any more.

    Parameters
    ----------
    path
        Path of the file of the process; its rings stand beside it.
    """
    try:
        process = ProcessFile(path)
        rings = [Ring(ring) for ring in path.parent.glob(f"{path.stem}.*.ring")]
    except TraceFormatError as error:
        return f"{path.stem}: it is not known how much of it is lost: {error}"
    events = sum(ring.number("written") for ring in rings) - process.number("stored")
    calls = sum(ring.number("dropped_calls") for ring in rings)
    rows = sum(ring.number("dropped_rows") for ring in rings)
    counted = {"events": max(0, events), "calls for which there was no room": calls, "messages": rows}
    lost = [number_of(number, what) for what, number in counted.items() if number]
    if not lost:
        return ""
    return f"{who(process)}: {', '.join(lost)} of it are in no stream"


def who(process: ProcessFile) -> str:
    """Return the program, and its rank or process id."""
    program = os.path.basename(process.text("executable")) or "program"
    rank = process.number("world_rank")
    return f"{program}, rank {rank}" if rank >= 0 else f"{program}, process {process.number('pid')}"
