"""How soon a follower of files has labels, and what it costs while it waits: beside ADIOS2's own way."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import table
from benchmarks.transports.program import Order, Programs
from benchmarks.transports.readers import Readers, cpu_clock_s, lags_ms
from chimbuko.ad.handoff.exchange import Cell
from chimbuko.capture.follow.alarm import Alarm
from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import STREAM_PREFIX, Transport
from chimbuko.capture.trace.tausettings import transport_settings

ROWS, PERIOD_S = 5_000, 1.0
POLL_S = 0.02
"""Baseline: a step is at most so late."""
STREAMS = (1, 40)
BEGIN_S = 60.0
SETTLE_S = 8.0
"""What comes with the first steps, of 40 processes at once, is not of interest."""


@dataclass(frozen=True)
class Case:
    """One way to follow streams of one kind."""

    streams: int
    poll_s: float | None
    """None for the product's own way."""
    steps: str
    """``idle``, ``in turn`` or ``at once``."""


@dataclass
class Result:
    """What it took, of CPU time in ms per second."""

    case: Case
    lags_ms: list[float] = field(default_factory=list)
    readers_ms: float = 0.0
    """Of all."""
    guard_ms: float = 0.0
    fork_server_ms: float = 0.0


CASES = [
    Case(streams, poll_s, steps)
    for streams in STREAMS
    for steps in ("idle", "in turn", "at once")
    for poll_s in (None, POLL_S)
    if streams > 1 or steps != "at once"
]


def measure(rounds: int, cases: list[Case] | None = None, settle_s: float = SETTLE_S) -> list[Result]:
    """Each case for ``rounds`` seconds."""
    results = []
    for case in cases or CASES:
        with (
            tempfile.TemporaryDirectory(dir=MEMORY, prefix="chimbuko-bench-") as folder,
            tempfile.TemporaryDirectory(prefix="chimbuko-bench-") as scratch,
        ):
            results.append(_one(case, rounds, settle_s, Path(folder), Path(scratch)))
    return results


def _one(case: Case, seconds: int, settle_s: float, folder: Path, scratch: Path) -> Result:
    paths = [folder / f"{STREAM_PREFIX}-follow-{rank}.bp" for rank in range(case.streams)]
    engine, parameters = transport_settings(Transport.FILES)
    order = Order(
        str(scratch / "program"),
        [str(path) for path in paths],
        engine,
        parameters,
        ROWS,
        PERIOD_S,
        idle_after=2 if case.steps == "idle" else 1 << 30,
        is_spread=case.steps == "in turn",
    )
    with Readers(folder, scratch, case.poll_s) as readers, Programs() as programs:
        if case.poll_s is None and not _can_be_reported(folder):
            print("no inotify instance is left for this user: followers look every 50 ms", file=sys.stderr)
        program = programs.start(order)
        while not all(path.exists() for path in paths):
            time.sleep(0.01)
        streams = [readers.add(path, Transport.FILES) for path in paths]
        latest_s = time.monotonic() + BEGIN_S
        while not all(stream.box[Cell.GENERATION] or lags_ms(stream) for stream in streams):
            readers.run(0.1)
            if time.monotonic() > latest_s:
                sys.exit(f"{case}: not all streams are read")
        readers.run(settle_s)
        result, before = Result(case), {key: len(lags_ms(stream)) for key, stream in enumerate(streams)}
        began_s = time.monotonic()
        spent = [-sum(map(cpu_clock_s, readers.pids)), -cpu_clock_s(readers.guard_pid), -readers.server_cpu_s]
        readers.run(seconds)
        took_s = time.monotonic() - began_s
        spent[0] += sum(map(cpu_clock_s, readers.pids))
        spent[1] += cpu_clock_s(readers.guard_pid)
        spent[2] += readers.server_cpu_s
        result.readers_ms, result.guard_ms, result.fork_server_ms = (1e3 * s / took_s for s in spent)
        for key, stream in enumerate(streams):
            result.lags_ms += list(lags_ms(stream).values())[before[key] :]
        program.end()
        latest_s = time.monotonic() + BEGIN_S
        while program.is_running or not all(stream.is_over for stream in streams):
            readers.run(0.1)
            if time.monotonic() > latest_s:
                sys.exit(f"{case}: streams did not come to their end")
    return result


def _can_be_reported(folder: Path) -> bool:
    """Whether the kernel tells this user of changes."""
    alarm = Alarm(folder, 0.0)
    try:
        return alarm._is_watching
    finally:
        alarm.close()


HEADS = (
    *("streams", "steps", "woken by", "lag ms, median", "p95", "worst"),
    *("CPU ms/s, a reader", "all readers", "guard", "together, of a core"),
)


def row(result: Result) -> tuple[str, ...]:
    """How soon, and for how much."""
    case = result.case
    lags = np.quantile(result.lags_ms, (0.5, 0.95, 1.0)) if result.lags_ms else ()
    together_ms = result.readers_ms + result.guard_ms + result.fork_server_ms
    return (
        f"{case.streams}",
        {"idle": "none"}.get(case.steps, f"one a second{', ' + case.steps if case.streams > 1 else ''}"),
        "the kernel" if case.poll_s is None else f"a look every {1e3 * case.poll_s:.0f} ms",
        *([f"{lag:.1f}" for lag in lags] or [""] * 3),
        f"{result.readers_ms / case.streams:.2f}",
        f"{result.readers_ms:.1f}",
        f"{result.guard_ms:.2f}",
        f"{together_ms / 10:.2f}%",
    )


def text(results: list[Result]) -> str:
    """A table."""
    return "Followers of files\n" + table(HEADS, [row(result) for result in results])


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """All that was measured."""
    return [asdict(result) for result in results]
