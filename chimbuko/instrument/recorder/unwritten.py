"""What a process has recorded that is in no stream, since who wrote that has died."""

from __future__ import annotations

import os
from pathlib import Path

from chimbuko.core.errors import TraceFormatError
from chimbuko.core.units import number_of
from chimbuko.instrument.recorder.ring import ProcessFile, Ring


def unwritten(path: Path) -> str:
    """Of whom how much is lost, as a sentence; empty for nothing.

    The count of events is at most too large by those of one step, which was written, and not noted.

    Parameters
    ----------
    path
        Of the process's file; its rings stand beside it.
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
    """Which program, and which rank or process of it."""
    program = os.path.basename(process.text("executable")) or "program"
    rank = process.number("world_rank")
    return f"{program}, rank {rank}" if rank >= 0 else f"{program}, process {process.number('pid')}"
