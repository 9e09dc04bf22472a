"""A program that writes streams as one under TAU does, and measures what each step has cost it.

The other benchmarks start it: ``python -m benchmarks.transports.program`` reads orders, one JSON object a
line, and forks a process for each, so that one begins in milliseconds. What is preloaded into it is there
in all of them.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

import adios2.bindings  # noqa: F401 - every process that is forked here would load it
import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import ROOT_TIMER_NAME, EventType, StreamNames
from chimbuko.runtime.process.lifetime import die_with_parent

ROOT = Path(__file__).parent.parent.parent
ENTRY, EXIT, SEND = EventType.ENTRY, EventType.EXIT, EventType.SEND
FUNCTIONS = 40
"""Of the program's own, each of which calls one of MPI's as often as it is called."""
COMM_SHARE, COUNTER_SHARE = 0.12, 0.08
OUTLIER_SHARE, OUTLIER_FACTOR = 0.001, 10.0
FILLED_SHARE = 0.9
"""Part of the period that a step's events span: what a step is late must not reach back into the last."""
_STEP = struct.Struct("qddd")
_START_S = 0.05


@dataclass(frozen=True)
class Order:
    """What one process is to write."""

    folder: str
    """For its word about itself."""
    streams: list[str]
    """Paths; a step of each is written in every period."""
    engine: str
    parameters: dict[str, str]
    rows: int
    period_s: float
    steps: int = 1 << 30
    """At most; it ends before when the file ``end`` is in its folder."""
    idle_after: int = 1 << 30
    """Steps after which it writes no more until it ends."""
    is_spread: bool = False
    """Whether streams take turns within the period, and do not all write at once."""
    waits_for_reader: bool = False
    """Whether it writes further steps until the file ``read`` is in its folder."""
    has_copy: bool = False
    """Whether the arrays of each step are copied as well, and that is measured."""


@dataclass
class Step:
    """What one step has cost."""

    number: int
    wall_ms: float
    cpu_ms: float
    """Of all threads."""
    copy_ms: float


@dataclass
class Ending:
    """What a program says of itself at its end."""

    close_ms: float = 0.0
    cpu_s: float = 0.0
    """Of all that writes: of all threads, without that of making the rows."""
    seconds: float = 0.0


@dataclass
class Rows:
    """Makes the rows of one stream: calls of one level within another, the last of which ends now."""

    rows: int
    period_s: float
    rank: int
    steps: int = 0
    names: StreamNames = field(init=False)
    _end_us: int = 0

    def __post_init__(self) -> None:
        functions = {
            1 + i: f"void Solver::stage_{i:02}(double *, int) [{{solver.cpp}} {{{i},1}}]"
            for i in range(FUNCTIONS)
        }
        calls = {1 + FUNCTIONS + i: f"MPI_Call_{i:02}()" for i in range(FUNCTIONS)}
        self.names = StreamNames(
            timers={0: ROOT_TIMER_NAME, **functions, **calls},
            counters={0: "TIME", 1: "Message size sent to all nodes"},
            event_types={int(kind): kind.name for kind in EventType},
            program="program",
            metadata={(self.rank, 0, "TAU Version"): "stand-in", (self.rank, 0, "Hostname"): "node"},
        )
        self._random = np.random.default_rng(self.rank)

    def step(self) -> tuple[UInt64Array, UInt64Array, UInt64Array]:
        """Rows of the time since the last step, or of a period if that is less."""
        comms, counters = int(COMM_SHARE * self.rows), int(COUNTER_SHARE * self.rows)
        calls = max((self.rows - comms - counters) // 4, 1)
        parts = self._random.lognormal(0.0, 0.3, (calls, 4))
        parts[self._random.random(calls) < OUTLIER_SHARE, 2] *= OUTLIER_FACTOR
        before = parts.ravel().cumsum()
        first = int(self.steps == 0)
        now_us = time.time_ns() // 1000
        span_us = min(FILLED_SHARE * self.period_s * 1e6, now_us - self._end_us - 2)
        events = np.zeros((4 * calls + first, 6), np.uint64)
        events[:, 1] = self.rank
        inner = events[first:]
        inner[:, 3] = np.tile([ENTRY, ENTRY, EXIT, EXIT], calls)
        outer = self._random.integers(1, 1 + FUNCTIONS, calls)
        inner[:, 4] = np.stack([outer, outer + FUNCTIONS, outer + FUNCTIONS, outer], axis=1).ravel()
        inner[:, 5] = now_us - ((1.0 - before / before[-1]) * span_us).astype(np.uint64)
        if first:
            events[0, 5] = inner[0, 5] - np.uint64(1)
        at = inner[:, 5]
        self._end_us = now_us
        self.steps += 1
        return (
            events,
            self._rows(comms, 8, at, (3, SEND), (6, 800)),
            self._rows(counters, 6, at, (3, 1), (4, 800)),
        )

    def last(self) -> tuple[UInt64Array, UInt64Array, UInt64Array]:
        """The end of the program."""
        now_us = time.time_ns() // 1000
        return np.array([(0, self.rank, 0, EXIT, 0, now_us)], np.uint64), *_nothing()

    def _rows(self, count: int, columns: int, at: UInt64Array, *values: tuple[int, int]) -> UInt64Array:
        rows = np.zeros((count, columns), np.uint64)
        rows[:, 1] = self.rank
        for column, value in values:
            rows[:, column] = value
        rows[:, -1] = at[np.arange(count) * len(at) // max(count, 1)]
        return rows


def _nothing() -> tuple[UInt64Array, UInt64Array]:
    return np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)


class _Stream:
    """One stream of a process."""

    def __init__(self, order: Order, number: int) -> None:
        path = Path(order.streams[number])
        self._rows = Rows(order.rows, order.period_s, rank_of(path))
        self._writer = StreamWriter(path, order.engine, order.parameters)
        self._log = (Path(order.folder) / f"steps-{number}").open("wb", buffering=0)
        self._copies = [np.empty(0, np.uint64)] * 3 if order.has_copy else []
        self.cpu_s = 0.0
        self.main_cpu_s = 0.0

    def write(self, is_last: bool = False) -> None:
        arrays = self._rows.last() if is_last else self._rows.step()
        main_s, cpu_s, began_s = time.thread_time(), time.process_time(), time.perf_counter()
        self._writer.write_step(*arrays, self._rows.names)
        ended_s = time.perf_counter()
        took_cpu_s = time.process_time() - cpu_s
        self.main_cpu_s += time.thread_time() - main_s
        copy_s = self._copy(arrays)
        # The number is complete when its record is: the file grows by whole records.
        self._log.write(
            _STEP.pack(self._rows.steps, 1e3 * (ended_s - began_s), 1e3 * took_cpu_s, 1e3 * copy_s)
        )

    def close(self) -> float:
        """Seconds that it took."""
        main_s, began_s = time.thread_time(), time.perf_counter()
        self._writer.close()
        self.main_cpu_s += time.thread_time() - main_s
        return time.perf_counter() - began_s

    def _copy(self, arrays: tuple[UInt64Array, ...]) -> float:
        """Seconds of copying into memory that is used again."""
        if not self._copies:
            return 0.0
        if len(self._copies[0]) != len(arrays[0]):
            self._copies = [np.ones_like(array) for array in arrays]
        began_s = time.perf_counter()
        for copy, array in zip(self._copies, arrays, strict=True):
            np.copyto(copy, array)
        return time.perf_counter() - began_s


def rank_of(stream: Path) -> int:
    """The rank in a stream's name."""
    return int(stream.stem.rpartition("-")[2])


def run(order: Order) -> None:
    """Write all that is ordered, and say what it has cost."""
    folder = Path(order.folder)
    end, read = folder / "end", folder / "read"
    began_s, cpu_s, main_s = time.monotonic(), time.process_time(), time.thread_time()
    streams = [_Stream(order, number) for number in range(len(order.streams))]
    turns = len(streams) if order.is_spread else 1
    due_s = time.monotonic() + _START_S
    step = 0
    while (step < order.steps or (order.waits_for_reader and not read.exists())) and not end.exists():
        for number, stream in enumerate(streams):
            if order.is_spread or number == 0:
                due_s = max(due_s + order.period_s / turns, time.monotonic())
                time.sleep(max(due_s - time.monotonic(), 0.0))
            if step < order.idle_after:
                stream.write()
        step += 1
    for stream in streams:
        stream.write(is_last=True)
    closing_ms = [1e3 * stream.close() for stream in streams]
    main_writing_s = sum(stream.main_cpu_s for stream in streams)
    others_s = (time.process_time() - cpu_s) - (time.thread_time() - main_s)
    ending = Ending(max(closing_ms), main_writing_s + others_s, time.monotonic() - began_s)
    temporary = folder / "ending.new"
    temporary.write_text(json.dumps(asdict(ending)))
    temporary.rename(folder / "ending")


class Programs:
    """Starts programs. Only what is in ``environment`` differs between those of one instance and another."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.transports.program"],
            cwd=ROOT,
            env=None if environment is None else dict(environment),
            stdin=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    def start(self, order: Order) -> Program:
        """A process that does what is ordered; its folder is made."""
        assert self._process.stdin is not None
        Path(order.folder).mkdir(parents=True)
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        return Program(order)

    def close(self) -> None:
        """No more will be started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Program:
    """One program, as seen from outside."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._folder = Path(order.folder)
        self._pid = 0

    @property
    def pid(self) -> int:
        """Of its process; 0 before it has begun."""
        with suppress(OSError, ValueError):
            self._pid = self._pid or int((self._folder / "pid").read_text())
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether its process is there, or about to be."""
        if not self.pid:
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def steps_written(self, stream: int = 0) -> int:
        """Of one stream, so far."""
        with suppress(OSError):
            return (self._folder / f"steps-{stream}").stat().st_size // _STEP.size
        return 0

    def steps(self, stream: int = 0) -> list[Step]:
        """What each step of a stream has cost."""
        content = (self._folder / f"steps-{stream}").read_bytes()
        whole = content[: len(content) // _STEP.size * _STEP.size]
        return [Step(*values) for values in _STEP.iter_unpack(whole)]

    def ending(self) -> Ending | None:
        """What it has said at its end; None if it has not come to that."""
        try:
            return Ending(**json.loads((self._folder / "ending").read_text()))
        except OSError:
            return None

    def has_reader(self) -> None:
        """Let one that waits for its reader come to its end."""
        (self._folder / "read").touch()

    def end(self) -> None:
        """Let it end."""
        (self._folder / "end").touch()

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def main() -> None:
    """Fork a process for each order, until there will be none."""
    # Nobody asks how they have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in iter(sys.stdin.readline, ""):
        order = Order(**json.loads(line))
        if os.fork() == 0:
            try:
                die_with_parent()
                word = Path(order.folder) / "pid.new"
                word.write_text(str(os.getpid()))
                word.rename(Path(order.folder) / "pid")
                run(order)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
