"""Runs small programs under the tracer and reads what they left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import EVENT_TIMER, EVENT_TYPE, StreamNames, TraceStep
from tests.patience import PATIENCE_S

TRACE = [sys.executable, "-m", "chimbuko", "trace"]


@dataclass
class Call:
    name: str
    thread: int
    depth: int
    entry_us: int
    exit_us: int


@dataclass
class Stream:
    """A whole stream; the rows of its steps one after the other."""

    names: StreamNames
    steps: int
    events: UInt64Array
    comms: UInt64Array
    counters: UInt64Array

    def calls(self) -> list[Call]:
        """Calls, of each thread in order of exit; every exit has to match, and no time runs backwards."""
        stacks: dict[int, list[Call]] = {}
        ended = []
        for _, _, thread, kind, timer, time_us in self.events.tolist():
            stack = stacks.setdefault(thread, [])
            # MAIN [{file}{line}] to MAIN
            name = self.names.timers[timer].partition(" [")[0]
            if kind == 0:
                stack.append(Call(name, thread, len(stack), time_us, 0))
            else:
                call = stack.pop()
                assert call.name == name
                assert call.entry_us <= time_us
                call.exit_us = time_us
                ended.append(call)
        return ended

    def counts(self) -> Counter[str]:
        """Number of ended calls by name."""
        return Counter(call.name for call in self.calls())

    def open_timers(self) -> list[str]:
        """Names entered and not left, on any thread."""
        entered, left = (
            Counter(self.events[self.events[:, EVENT_TYPE] == kind, EVENT_TIMER].tolist()) for kind in (0, 1)
        )
        return [self.names.timers[timer] for timer in (entered - left).elements()]


def write_program(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def environment(**variables: str) -> dict[str, str]:
    """This process's, without what would lead a trace elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TAU_", "CHIMBUKO_"))}
    return {**kept, **variables}


def run_traced(
    program: Path,
    *options: str,
    arguments: Sequence[str] = (),
    folder: Path | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run in a folder, by default the program's, where the trace then lies."""
    return subprocess.run(
        [*TRACE, *options, str(program), *arguments],
        cwd=folder or program.parent,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def read_whole(path: Path) -> Stream:
    """Read a stream that is, or is just being, completed."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _read_to_end(path)
        except (TraceFormatError, TimeoutError):
            assert time.monotonic() < give_up, f"{path} was never completed"
            time.sleep(0.05)


def _read_to_end(path: Path) -> Stream:
    steps = []
    with StreamReader(path, "BPFile") as reader:
        while isinstance(step := reader.next_step(0.1), TraceStep):
            steps.append((step.events.copy(), step.comms.copy(), step.counters.copy()))
        if step is not Waiting.END:
            raise TimeoutError(path)
    events, comms, counters = (np.concatenate(arrays) for arrays in zip(*steps, strict=True))
    return Stream(reader.names, len(steps), events, comms, counters)


def working_in(folder: Path) -> list[str]:
    """Ids of other processes whose current folder this is."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if os.readlink(entry) == str(folder):
                found.append(entry.parent.name)
    return found
