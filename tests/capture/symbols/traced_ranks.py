"""Streams as TAU writes them for programs that are there: in the test, or as the application of a run."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import StreamNames
from tests.capture.symbols.programs import Running, running

NO_COMMS, NO_COUNTERS = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
STEPS = 10


class RankWriter:
    """Writes calls of a program's functions, each in the one before."""

    def __init__(self, prefix: Path, program: Running, rank: int, engine: str = "BP5") -> None:
        self.path = Path(f"{prefix}-app-{rank}.bp")
        self._program = program
        self._rank = rank
        self._step = 0
        self._names = StreamNames(
            timers=dict(enumerate([".TAU application", *program.names()])),
            event_types={0: "ENTRY", 1: "EXIT"},
            metadata=program.metadata(rank),
        )
        parameters = {"RendezvousReaderCount": "1"} if engine == "SST" else {}
        self._writer = StreamWriter(self.path, engine, parameters)

    def write(self, is_last: bool) -> None:
        """One step; what is around all calls begins with the first, and ends with the last."""
        begin = self._program.began_us + self._step * 1000
        calls = range(1, len(self._names.timers))
        rows = [] if self._step else [[0, self._rank, 0, 0, 0, begin]]
        rows += [[0, self._rank, 0, 0, timer, begin + timer] for timer in calls]
        rows += [[0, self._rank, 0, 1, timer, begin + 50 - timer] for timer in reversed(calls)]
        rows += [[0, self._rank, 0, 1, 0, begin + 60]] if is_last else []
        self._writer.write_step(np.array(rows, np.uint64), NO_COMMS, NO_COUNTERS, self._names)
        self._step += 1

    def close(self) -> None:
        """The program has ended."""
        self._writer.close()


def write_rank(prefix: Path, program: Running, rank: int, steps: int = 1) -> Path:
    """A whole stream."""
    writer = RankWriter(prefix, program, rank)
    for step in range(steps):
        writer.write(step == steps - 1)
    writer.close()
    return writer.path


def main(executable: str, ranks: str) -> None:
    """Be the application: its ranks write step by step."""
    prefix = Path(os.environ["TAU_ADIOS2_FILENAME"])
    engine = "SST" if "SST" in Path(os.environ["TAU_ADIOS2_CONFIG_FILE"]).read_text() else "BP5"
    with ExitStack() as stack:
        programs = [stack.enter_context(running(Path(executable))) for _ in range(int(ranks))]
        writers = [RankWriter(prefix, program, rank, engine) for rank, program in enumerate(programs)]
        for step in range(STEPS):
            for writer in writers:
                writer.write(step == STEPS - 1)
            time.sleep(0.1)
        for writer in writers:
            writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
