"""The warm-up leaves nothing to compile, nor to load, for the streams that come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.config import DETECTORS
from chimbuko.core.traceschema import StreamNames
from tests.places import ROOT
from tests.thorough import first

CALLS = 200
ROWS = (0, 1, 2, CALLS)
"""Of messages and counter values in a step: arrays of none, of one and of many rows differ in layout."""
THREADS = 6


def write_varied_stream(path: Path) -> None:
    """Calls on more threads from step to step, some of them slow, with few or many messages and counters."""
    timers = {0: "main", 1: "solve", 2: "MPI_Send()", 3: "norm"}
    counters = {0: "TIME", 1: "CPU_TIME", 2: "monitoring: memory (MB)", 3: "bytes"}
    names = StreamNames(timers=timers, counters=counters)
    random = np.random.default_rng(1)
    time_us = 1_000_000
    with StreamWriter(path, "BP4") as writer:
        for step in range(3 * len(ROWS)):
            events, times = [], []
            for call in range(CALLS):
                thread = call % (1 + step * THREADS // (3 * len(ROWS)))
                # Timer 90 never gets a name.
                timer = (1, 2, 3, 90)[call % 4]
                events.append([0, 0, thread, 0, timer, time_us])
                times.append([thread, time_us])
                time_us += 5000 if random.random() < 0.02 else 10 + call % 3
                events.append([0, 0, thread, 1, timer, time_us])
            count = ROWS[step % len(ROWS)]
            comms = [[0, 0, thread, 2, 7, 0, 8, at] for thread, at in times[:count]]
            values = [[0, 0, thread, row % 4, row, at] for row, (thread, at) in enumerate(times[:count])]
            writer.write_step(
                np.array(events, np.uint64),
                np.array(comms, np.uint64).reshape(-1, 8),
                np.array(values, np.uint64).reshape(-1, 6),
                names,
            )
        empty = np.empty((0, 6), np.uint64)
        writer.write_step(empty, np.empty((0, 8), np.uint64), empty, names)


@pytest.mark.parametrize("detector", first(1, DETECTORS))
def test_after_the_warm_up_no_kernel_is_compiled_or_loaded(
    real_traces: Path, tmp_path: Path, detector: str
) -> None:
    write_varied_stream(tmp_path / "tau-metrics-varied-0.bp")
    streams = [real_traces / "heat4" / "tau-metrics-heat2d-1.bp", tmp_path / "tau-metrics-varied-0.bp"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.ad.streamprocess.after_warmup", detector, *map(str, streams)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
