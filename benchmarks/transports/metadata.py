"""How a stream's metadata grows, what of it stays when its reader gives back, and what a day comes to."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import table
from benchmarks.transports.program import Rows
from chimbuko.capture.follow.followedstream import FollowedStream
from chimbuko.capture.follow.instances import aside_of
from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import STREAM_PREFIX
from chimbuko.capture.trace.tausettings import FILE_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import StreamNames, TraceStep

FILES = ("md.0", "md.idx", "mmd.0")
STEPS_PER_DAY = 86_400
STEPS_PER_ROUND = 1_000
LAYOUTS = {"events only": 1, "events, messages, counters": 3}
"""Arrays that have rows; TAU leaves out those that have none."""


@dataclass
class Result:
    """What one layout costs."""

    layout: str
    steps: int
    bytes_per_step: dict[str, float]
    """By file, over the second half of the steps: the first one brings names and layouts."""
    first_bytes: int
    """Of all files after the first step."""
    held_bytes: int
    """Space that all metadata takes when every step was read and given back."""
    successor_s: float
    """Until a successor has the last step."""


def measure(rounds: int) -> list[Result]:
    """All layouts, each with ``rounds`` times a thousand steps."""
    return [_one(layout, arrays, rounds * STEPS_PER_ROUND) for layout, arrays in LAYOUTS.items()]


def _one(layout: str, arrays: int, steps: int) -> Result:
    rows = Rows(100, 0.001, 0)
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="chimbuko-bench-") as folder:
        stream = Path(folder) / f"{STREAM_PREFIX}-metadata-0.bp"
        sizes: list[dict[str, int]] = []
        with StreamWriter(stream, "BP5", FILE_PARAMETERS) as writer:
            for step in range(steps):
                events, *others = rows.step()
                comms, counters = others if arrays == len(FILES) else map(_emptied, others)
                writer.write_step(events, comms, counters, rows.names)
                if step in (0, steps // 2, steps - 1):
                    sizes.append({name: (stream / name).stat().st_size for name in FILES})
            first, half, last = sizes
        _give_back(stream, steps)
        held = sum((aside_of(stream, 0) / name).stat().st_blocks * 512 for name in FILES)
        took_s = _successor_s(stream, steps)
    counted = steps - 1 - steps // 2
    per_step = {name: (last[name] - half[name]) / counted for name in FILES}
    return Result(layout, steps, per_step, sum(first.values()), held, took_s)


def _emptied(rows: UInt64Array) -> UInt64Array:
    return np.empty((0, rows.shape[1]), np.uint64)


def _give_back(stream: Path, steps: int) -> None:
    """Read all but the last step, and give each back."""
    followed = FollowedStream(stream, None, 0, 0, StreamNames())
    for step in range(steps - 1):
        while not isinstance(followed.next_step(None), TraceStep):
            pass
        followed.give_back(step + 1)
    followed.close()


def _successor_s(stream: Path, steps: int) -> float:
    """Open it as a successor that has only the last step to read."""
    began_s = time.perf_counter()
    followed = FollowedStream(stream, None, 0, steps - 1, StreamNames())
    while not isinstance(followed.next_step(None), TraceStep):
        pass
    took_s = time.perf_counter() - began_s
    followed.close()
    return took_s


HEADS = (
    *("step with", "steps", *(f"{name}, bytes a step" for name in FILES), "first step, bytes"),
    *("a day written, MB", "a day held, MB", "of 40 streams, MB", "successor, ms"),
)


def row(result: Result) -> tuple[str, ...]:
    """Growth, and what a day of one step per second comes to."""
    written_mb = sum(result.bytes_per_step.values()) * STEPS_PER_DAY / 1e6
    held_mb = result.held_bytes / result.steps * STEPS_PER_DAY / 1e6
    return (
        result.layout,
        f"{result.steps:,}",
        *(f"{result.bytes_per_step[name]:.0f}" for name in FILES),
        f"{result.first_bytes:,}",
        f"{written_mb:.1f}",
        f"{held_mb:.1f}",
        f"{40 * held_mb:,.0f}",
        f"{1e3 * result.successor_s:.1f}",
    )


def text(results: list[Result]) -> str:
    """A table."""
    return "Metadata of one step a second\n" + table(HEADS, [row(result) for result in results])


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """All that was measured."""
    return [asdict(result) for result in results]
