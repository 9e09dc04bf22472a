"""What a recorded program has left, as readers see it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.traceschema import (
    COMM_COLUMNS,
    EVENT_COLUMNS,
    NO_DETAILS,
    NO_OPERATIONS,
    EventType,
    StreamNames,
    TraceStep,
)
from tests.patience import PATIENCE_S

TRACE = [sys.executable, "-m", "chimbuko", "trace"]
WHOLE = ["--overhead", "100%"]
"""A budget by which functions are recorded however often they are called."""


class Stream:
    """All of one stream."""

    def __init__(self, path: Path, rank: int, first_rank: int = 0) -> None:
        self.path = path
        self.rank = rank
        events, comms, counters, details, operations = [], [], [], [], []
        with StreamReader(path, "BPFile", rank=rank, first_rank=first_rank) as reader:
            while isinstance(step := reader.next_step(5.0), TraceStep):
                events.append(step.events.copy())
                comms.append(step.comms.copy())
                counters.append(step.counters.copy())
                details.append(step.details.copy())
                operations.append(step.operations.copy())
            self.names: StreamNames = reader.names
        self.events = np.concatenate((np.empty((0, EVENT_COLUMNS), np.uint64), *events))
        for thread in np.unique(self.events[:, 2]):
            times_us = self.events[self.events[:, 2] == thread, 5].astype(np.int64)
            assert (np.diff(times_us) >= 0).all(), f"rank {rank}: the time of thread {thread} runs backwards"
        self.comms = np.concatenate((np.empty((0, COMM_COLUMNS), np.uint64), *comms))
        counted = np.concatenate((np.empty((0, EVENT_COLUMNS), np.uint64), *counters))
        works = [number for number, name in self.names.counters.items() if name.startswith("Work: ")]
        is_work = np.isin(counted[:, 3], works)
        self.counters, self.work = counted[~is_work], counted[is_work]
        """Counters of the program, and what our recorder counts where a call takes a millisecond."""
        self.details = np.concatenate((NO_DETAILS, *details))
        self.operations = np.concatenate((NO_OPERATIONS, *operations))

    def function(self, timer: int) -> str:
        """Its name without file and line."""
        return self.names.timer_name(timer).partition(" [")[0]

    def calls(self, thread: int | None = None) -> Counter[str]:
        """Number of calls by function, each of which has ended; of one thread, or of all."""
        rows = self.events if thread is None else self.events[self.events[:, 2] == thread]
        begun, ended = (
            Counter(self.function(row[4]) for row in rows[rows[:, 3] == kind].tolist())
            for kind in (EventType.ENTRY, EventType.EXIT)
        )
        assert begun == ended
        return begun

    def nesting(self) -> Counter[tuple[str, str]]:
        """Number of calls by function and the function that called it; calls nest."""
        found: Counter[tuple[str, str]] = Counter()
        for thread in np.unique(self.events[:, 2]).tolist():
            stack = [""]
            for row in self.events[self.events[:, 2] == thread].tolist():
                name = self.function(row[4])
                if row[3] == EventType.ENTRY:
                    found[stack[-1], name] += 1
                    stack.append(name)
                else:
                    assert stack.pop() == name
        return found

    def messages(self, kind: EventType) -> list[tuple[int, int, int]]:
        """Partner, tag and bytes of each message, in order."""
        rows = self.comms[self.comms[:, 3] == kind]
        return [(row[5], row[4], row[6]) for row in rows.tolist()]

    def metadata(self, key: str) -> str:
        """A text; empty where there is none."""
        return self.names.metadata.get((self.rank, 0, key), "")


def record(
    folder: Path, words: list[str | Path], launcher: list[str] | None = None, code: int = 0, **variables: str
) -> list[Stream]:
    """Run a program under the recorder; its streams, by program and rank, when all are complete."""
    command = [*(launcher or []), *TRACE, *map(str, words)]
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "tau-metrics"), **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S)
    assert done.returncode == code, done.stdout + done.stderr
    await_drains(folder)
    assert list(folder.glob("*.bp")), done.stdout + done.stderr
    return streams(folder)


def await_drains(folder: Path) -> None:
    """Wait until all that drain for streams in a folder have ended."""
    latest = time.monotonic() + PATIENCE_S
    while drains(folder):
        assert time.monotonic() < latest, f"still there: {drains(folder)}"
        time.sleep(0.05)


def drains(folder: Path) -> list[int]:
    """Processes that write streams into a folder."""
    mark = f"TAU_ADIOS2_FILENAME={folder}/tau-metrics".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_drain = b"recorder.drain" in (process / "cmdline").read_bytes()
            if is_drain and mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def streams(folder: Path) -> list[Stream]:
    """All streams in a folder, by program and rank."""
    return [
        Stream(found.path, found.rank, found.first_rank) for found in find_recorded([str(folder / "*.bp")])
    ]
