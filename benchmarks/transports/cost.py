"""What a program pays for a step, over each transport, and with each setting that was tried."""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import table
from benchmarks.transports.program import Order, Program, Programs
from chimbuko.capture.follow.followedstream import FollowedStream
from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, STREAM_PREFIX
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.tausettings import FILE_PARAMETERS, SAFE_SST_PARAMETERS
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.process.lifetime import die_with_parent

ROWS = (5_000, 20_000, 100_000)
STEPS = {5_000: 60, 20_000: 50, 100_000: 40}
PERIOD_S = {5_000: 0.02, 20_000: 0.03, 100_000: 0.06}
"""Quicker than in a run, one step per second: that is why caches are warmer here."""
FIRST_STEPS = 5
"""Not counted: memory on both sides is fresh, and a reader joins."""
_KEEP_SIZE = 1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64


@dataclass(frozen=True)
class Variant:
    """One way to write."""

    name: str
    engine: str
    parameters: tuple[tuple[str, str], ...] = ()
    on_disk: bool = False
    ahead: bool = False
    """Whether the reader allocates the space of the next step."""
    is_tried: bool = False
    """Whether it is not what `chimbuko run` does, but was tried."""


def _files(**changes: str) -> tuple[tuple[str, str], ...]:
    return tuple((FILE_PARAMETERS | changes).items())


VARIANTS = (
    Variant("no stream (ADIOS2's Null)", "Null"),
    Variant("sst", "SST", tuple(SAFE_SST_PARAMETERS.items())),
    Variant("files, TAU's settings", "BPFile"),
    Variant("files", "BP5", _files()),
    Variant("files on a disk", "BP5", _files(), on_disk=True),
    Variant("files, space ahead", "BP5", _files(), ahead=True, is_tried=True),
    Variant("files, BufferVType=malloc", "BP5", _files(BufferVType="malloc"), is_tried=True),
    Variant("files, chunks of 64 kB", "BP5", _files(BufferChunkSize=str(1 << 16)), is_tried=True),
    Variant("files, chunks of 16 MB", "BP5", _files(BufferChunkSize=str(16 << 20)), is_tried=True),
    Variant("files, arrays copied first", "BP5", _files(MinDeferredSize=str(1 << 30)), is_tried=True),
    Variant("files, with extremes", "BP5", _files(StatsLevel="1"), is_tried=True),
)


@dataclass
class Result:
    """All rounds of one variant with steps of one size."""

    variant: str
    is_tried: bool
    rows: int
    rounds: int
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    copy_ms: list[float] = field(default_factory=list)
    """Of the same arrays, right after each step."""
    ratios: list[float] = field(default_factory=list)
    """One per round: median of the steps to that of the copies, in wall time."""


class _Ahead:
    """Allocates space behind what was written, so that its writer finds it."""

    def __init__(self, stream: Path) -> None:
        self._path = stream / "data.0"
        self._allocated_to = 0

    def allocate(self, step_bytes: int) -> None:
        """For the next step and one more."""
        file = os.open(self._path, os.O_RDWR)
        end = os.fstat(file).st_size
        begin = max(end, self._allocated_to)
        if end + 2 * step_bytes > begin:
            _libc.fallocate(file, _KEEP_SIZE, begin, end + 2 * step_bytes - begin)
            self._allocated_to = end + 2 * step_bytes
        os.close(file)


def _read(variant: Variant, stream: Path, program: Program) -> None:
    """Read a stream to its end and give it back, as a stream's process does, but analyse nothing."""
    if variant.engine == "SST":
        with StreamReader(stream, "SST", open_timeout_s=30.0) as reader:
            program.has_reader()
            while not isinstance(reader.next_step(), Waiting):
                pass
        return
    followed = FollowedStream(stream, None, 0, 0, StreamNames())
    ahead = _Ahead(stream)
    program.has_reader()
    while True:
        step = followed.next_step(None)
        if isinstance(step, TraceStep):
            followed.give_back(step.step + 1)
            if variant.ahead:
                # Once the program has ended its files are set aside.
                with suppress(FileNotFoundError):
                    ahead.allocate(step.size_bytes)
        elif step is not Waiting.NOT_READY:
            break
    followed.close()


@contextmanager
def _reader(variant: Variant, stream: Path, program: Program) -> Iterator[None]:
    """A process that reads the stream."""
    if variant.engine == "Null":
        yield
        return
    child = os.fork()
    if child == 0:
        code = 1
        try:
            die_with_parent()
            _read(variant, stream, program)
            code = 0
        finally:
            os._exit(code)
    yield
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"the reader of {variant.name} ended with {status}")


def _one(programs: Programs, variant: Variant, rows: int, steps: int, folder: Path, scratch: Path) -> Result:
    stream = (scratch if variant.on_disk else folder) / f"{STREAM_PREFIX}-cost-0.bp"
    order = Order(
        str(scratch / "program"),
        [str(stream)],
        variant.engine,
        dict(variant.parameters),
        rows,
        PERIOD_S[rows],
        steps=steps,
        waits_for_reader=variant.engine != "Null",
        has_copy=True,
    )
    program = programs.start(order)
    begun = stream.with_name(stream.name + CONTACT_SUFFIX) if variant.engine == "SST" else stream
    while variant.engine != "Null" and not begun.exists():
        time.sleep(0.002)
    with _reader(variant, stream, program):
        while program.is_running:
            time.sleep(0.01)
    if program.ending() is None:
        sys.exit(f"the program of {variant.name} died")
    # The last ones: one that has waited for its reader has written more.
    found = program.steps()[FIRST_STEPS - steps - 1 : -1]
    wall_ms, copy_ms = [step.wall_ms for step in found], [step.copy_ms for step in found]
    ratio = statistics.median(wall_ms) / statistics.median(copy_ms)
    cpu_ms = [step.cpu_ms for step in found]
    return Result(variant.name, variant.is_tried, rows, 1, wall_ms, cpu_ms, copy_ms, [ratio])


def measure(rounds: int, rows: tuple[int, ...] = ROWS, steps: dict[int, int] | None = None) -> list[Result]:
    """All variants with all sizes of steps, in rounds in which each has its turn."""
    totals = {
        (variant, size): Result(variant.name, variant.is_tried, size, rounds)
        for size in rows
        for variant in VARIANTS
    }
    with Programs() as programs:
        for _ in range(rounds):
            for (variant, size), total in totals.items():
                with (
                    tempfile.TemporaryDirectory(dir=MEMORY, prefix="chimbuko-bench-") as folder,
                    tempfile.TemporaryDirectory(prefix="chimbuko-bench-") as scratch,
                ):
                    count = (steps or STEPS)[size]
                    one = _one(programs, variant, size, count, Path(folder), Path(scratch))
                total.wall_ms += one.wall_ms
                total.cpu_ms += one.cpu_ms
                total.copy_ms += one.copy_ms
                total.ratios += one.ratios
    return list(totals.values())


HEADS = (
    *("rows/step", "transport", "wall ms, median", "p99", "CPU ms, median", "mean"),
    *("copy ms", "of the copy", "share of the program's time"),
)


def row(result: Result) -> tuple[str, ...]:
    """What a step has cost. A share is that of one step a second."""
    wall_ms = np.quantile(result.wall_ms, (0.5, 0.99))
    return (
        f"{result.rows:,}",
        result.variant,
        *(f"{ms:.2f}" for ms in wall_ms),
        f"{statistics.median(result.cpu_ms):.2f}",
        f"{statistics.mean(result.cpu_ms):.2f}",
        f"{statistics.median(result.copy_ms):.2f}",
        f"{statistics.median(result.ratios):.1f}",
        f"{wall_ms[0] / 10:.2f}%",
    )


def text(results: list[Result]) -> str:
    """One table of what is used, one of what was tried: small steps differ by nothing."""
    used = [row(result) for result in results if not result.is_tried]
    ours = {VARIANTS[3].name}
    largest = max(result.rows for result in results)
    compared = [result for result in results if result.rows == largest]
    tried = [row(result) for result in compared if result.is_tried or result.variant in ours]
    return "\n".join(
        ("What a step costs the program", table(HEADS, used), "\nWhat else was tried", table(HEADS, tried))
    )


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """All that was measured."""
    return [asdict(result) for result in results]
