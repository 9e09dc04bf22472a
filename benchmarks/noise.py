"""What bursts on the cores of ranks that wait for each other add to their run time, beside what is predicted.

Run: python -m benchmarks.noise [--ranks 1 2] [--chunks N]

Each rank has a core, computes for 10 ms, and waits for all others; beside it a process computes for 5 ms in
each 100 ms, at the same moment on all cores or at one of each core's own. Where it is permitted, all have
real-time priority, in chunks of half a second, so that a busy machine does not count.
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from benchmarks.measuring import table
from chimbuko.plan.noise import Noise, added_share

MEETS_S, BURST_S, PERIOD_S = 0.01, 0.005, 0.1
PER_CHUNK = 45
"""Intervals of a chunk: less than half a second, so that others have the other half."""
SPIN = 2_000


class Meeting:
    """Counters of ranks in memory that they share: each waits until all have come as far as it has."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._memory = mmap.mmap(-1, 8 * ranks)

    def come(self, rank: int, count: int) -> None:
        """Come to a meeting, and wait for all others."""
        struct.pack_into("q", self._memory, 8 * rank, count)
        while min(struct.unpack(f"{self._ranks}q", self._memory[: 8 * self._ranks])) < count:
            pass


def compute(units: int) -> None:
    """Do so many units of work."""
    for _ in range(units):
        total = 0
        for value in range(SPIN):
            total += value


def units_of(seconds: float) -> int:
    """How many units take so long on an undisturbed core."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    best_s = min(_clocked(lambda: compute(20)) for _ in range(10)) / 20
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return max(round(seconds / best_s), 1)


def _clocked(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def pin(core: int, priority: int) -> None:
    """Stay on a core, before all others where that is permitted."""
    os.sched_setaffinity(0, {core})
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def disturb(core: int, offset_s: float, units: int) -> int:
    """Start a process that computes in each period; returns its number."""
    child = os.fork()
    if child:
        return child
    pin(core, 11)
    while True:
        now_s = time.monotonic()
        time.sleep(PERIOD_S - (now_s - offset_s) % PERIOD_S)
        compute(units)


def run(ranks: int, offsets_s: list[float], chunks: int, units: int, burst: int) -> float:
    """Seconds of all intervals, of ranks beside which bursts come at these offsets; none without."""
    meeting, ends = Meeting(ranks), mmap.mmap(-1, 8 * ranks)
    cores = sorted(os.sched_getaffinity(0))[:ranks]
    others = [disturb(core, offset_s, burst) for core, offset_s in zip(cores, offsets_s, strict=False)]
    children = []
    for rank, core in enumerate(cores):
        if child := os.fork():
            children.append(child)
            continue
        pin(core, 10)
        taken_s, count = 0.0, 0
        for _ in range(chunks):
            time.sleep(0.6)
            count += 1
            meeting.come(rank, count)
            began_s = time.perf_counter()
            for _ in range(PER_CHUNK):
                compute(units)
                count += 1
                meeting.come(rank, count)
            taken_s += time.perf_counter() - began_s
        struct.pack_into("d", ends, 8 * rank, taken_s)
        os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    for other in others:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    return max(struct.unpack(f"{ranks}d", ends[: 8 * ranks]))


def main() -> int:
    """Measure, and print beside what is predicted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--chunks", type=int, default=4)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    units, burst = units_of(MEETS_S), units_of(BURST_S)
    rows = []
    for ranks in options.ranks:
        if ranks > cores:
            print(f"{ranks} ranks need as many cores; there are {cores}", file=sys.stderr)
            continue
        bare_s = run(ranks, [], options.chunks, units, burst)
        for name, within_s in (("at one moment", 0.0), ("at moments apart", PERIOD_S)):
            offsets_s = [within_s / ranks * rank for rank in range(ranks)]
            with_s = run(ranks, offsets_s, options.chunks, units, burst)
            noise = Noise(BURST_S / PERIOD_S, PERIOD_S, within_s, spread=0.02)
            predicted = added_share(noise, ranks, bare_s / options.chunks / PER_CHUNK)
            rows.append(
                (str(ranks), name, f"{100 * (with_s / bare_s - 1):.1f} %", f"{100 * predicted:.1f} %")
            )
    print(table(("ranks", "bursts", "measured", "predicted"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
