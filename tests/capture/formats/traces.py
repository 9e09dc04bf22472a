"""Traces in the formats of other tools, as the tests write them, and the streams that they become."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chimbuko.capture.formats.conversion import Converted, convert
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.traceschema import StreamNames, TraceStep

PERIOD_US = 1_000_000
Call = tuple[int, int, str, int, int]
"""Rank, thread, function, begin and end in µs."""


def chrome(*events: dict[str, Any]) -> bytes:
    """An array of events, each of process 1 and thread 1 unless it says otherwise."""
    return json.dumps([{"pid": 1, "tid": 1, "ts": 1000, **event} for event in events]).encode()


def converted(folder: Path, *texts: bytes, name: str = "trace.json") -> Converted:
    """Streams of files with these contents."""
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}-{name}"
        path.write_bytes(text)
        paths.append(path)
    return convert(paths, folder / "streams", "program", PERIOD_US)


def steps_of(stream: Path) -> tuple[list[TraceStep], StreamNames]:
    """All of a stream."""
    steps = []
    with StreamReader(stream, "BPFile") as reader:
        while isinstance(step := reader.next_step(1.0), TraceStep):
            arrays = (step.events, step.comms, step.counters, step.details, step.operations)
            steps.append(TraceStep(step.step, *(array.copy() for array in arrays)))
        return steps, reader.names


def calls_of(result: Converted) -> list[Call]:
    """All calls of the streams, in order of time, those that contain others first; open ones end at 0."""
    found: list[Call] = []
    for stream in result.streams:
        steps, names = steps_of(stream.path)
        stacks: dict[int, list[int]] = {}
        for step in steps:
            for _, rank, thread, kind, timer, time in step.events.tolist():
                stack = stacks.setdefault(thread, [])
                if kind == 0:
                    stack.append(len(found))
                    found.append((rank, thread, names.timers[timer], time, 0))
                else:
                    call = found[stack.pop()]
                    assert call[2] == names.timers[timer]
                    found[found.index(call)] = (*call[:4], time)
    return sorted(found, key=lambda call: (call[0], call[1], call[3], -call[4]))


def rows_of(result: Converted, array: str) -> list[Sequence[int]]:
    """Rows of an array of all streams and steps."""
    return [
        row
        for stream in result.streams
        for step in steps_of(stream.path)[0]
        for row in getattr(step, array).tolist()
    ]
