"""A recorded trace in which the calls of one function take longer, and all that follows comes later."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import (
    COMM_TIME,
    COUNTER_TIME,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    EventType,
    TraceStep,
)

END_WAIT_S = 1.0


def lengthen(source: Path, target: Path, function: str, share: float) -> int:
    """Write the stream ``source`` again as ``target``; returns how many calls take longer by ``share``.

    The exclusive time of each call of functions whose name begins with ``function`` grows by that share; what
    is less than a µs is carried on to the next call.
    """
    calls, lag_us = 0, 0.0
    stacks: dict[int, list[_Open]] = {}
    with StreamReader(source, "BPFile", END_WAIT_S) as reader, StreamWriter(target, "BP4") as writer:
        while isinstance(step := reader.next_step(END_WAIT_S), TraceStep):
            entry = reader.names.event_type_id(EventType.ENTRY)
            longer = {number for number, name in reader.names.timers.items() if name.startswith(function)}
            times, lags = [0], [lag_us]
            rows = step.events[:, [EVENT_THREAD, EVENT_TYPE, EVENT_TIMER, EVENT_TIME]]
            for thread, kind, timer, time_us in rows.tolist():
                stack = stacks.setdefault(thread, [])
                if kind == entry:
                    stack.append(_Open(time_us))
                elif stack:
                    inclusive_us, children_us = time_us - stack[-1].entry_us, stack.pop().children_us
                    if stack:
                        stack[-1].children_us += inclusive_us
                    if timer in longer:
                        calls += 1
                        lag_us += share * (inclusive_us - children_us)
                        times.append(time_us)
                        lags.append(lag_us)
            later = (np.array(times), np.array(lags))
            writer.write_step(
                _later(step.events, EVENT_TIME, *later),
                _later(step.comms, COMM_TIME, *later),
                _later(step.counters, COUNTER_TIME, *later),
                reader.names,
            )
    return calls


class _Open:
    """A call that has not ended."""

    def __init__(self, entry_us: int) -> None:
        self.entry_us = entry_us
        self.children_us = 0


def _later(
    rows: UInt64Array, column: int, times: npt.NDArray[np.int64], lags: npt.NDArray[np.float64]
) -> UInt64Array:
    """Rows with what their times lag behind by then."""
    moved = rows.copy()
    at = np.searchsorted(times, moved[:, column].astype(np.int64), "right") - 1
    moved[:, column] += np.floor(lags[at]).astype(np.uint64)
    return moved
