"""A mini-application: ranks that share a fixed amount of work and write a made-up trace.

Run: python -m benchmarks.placing.miniapp --ranks N --loops N --rows N --every N --steps N --result FILE

They wait for each other at each step, which is the same work for any number of them, with the same number of
rows. One step of the trace holds so many steps of the application. What steps took, and what all processes
of the analysis and of others took meanwhile, is written as JSON. With --group it leaves that cgroup to the
analysis, which has --quota cores from the middle of the warm-up until all steps are done.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from multiprocessing import Barrier
from multiprocessing.synchronize import Barrier as BarrierType
from pathlib import Path

import numpy as np

from benchmarks.generate import TIME_COLUMNS, SyntheticTrace, ages_us, arrays_of
from benchmarks.measuring import TICKS_PER_S, descendants
from benchmarks.placing.quota import Group
from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import TraceStep

WARM_STEPS = 12
"""Until what is done once is done: three steps of a trace that holds four."""
LIMITED_FROM = WARM_STEPS // 2
"""What begins the analysis of a stream is not slowed down by a quota."""
OUTLIERS = 0.0001
_CELLS = 4096


def work(loops: int) -> None:
    """So many passes over an array that stays in the cache."""
    cells = np.linspace(1.0, 2.0, _CELLS)
    for _ in range(loops):
        np.sqrt(cells, out=cells)


def cpu_s(root: int, application: int) -> tuple[float, float]:
    """CPU time so far of the analysis, which is all that a process has started beside the application and its
    children; and of whatever else there is on the machine.
    """
    found = descendants(root)
    analysis_s = sum(one.cpu_s for one in found if application not in (one.pid, one.parent))
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    busy_s = sum(map(int, (user, nice, system, *interrupts))) / TICKS_PER_S
    return analysis_s, busy_s - sum(one.cpu_s for one in found)


def _write(writer: StreamWriter, trace: SyntheticTrace, step: TraceStep, rank: int, span_s: float) -> None:
    """A step whose newest event happens now."""
    now_us = time.time_ns() // 1000
    for rows, column, age_us in zip(arrays_of(step), TIME_COLUMNS, ages_us(step, 1e6 * span_s), strict=True):
        rows[:, column] = now_us - age_us
        rows[:, 1] = rank
    writer.write_step(*arrays_of(step), trace.names)


def _run_rank(
    rank: int,
    options: argparse.Namespace,
    barrier: BarrierType,
    processes: tuple[int, int],
    group: Group | None,
) -> None:
    rows = options.rows * options.every // options.ranks
    trace = SyntheticTrace(rows, seed=1 + rank, outlier_share=OUTLIERS)
    began_s, began_cpu_s, written_s = 0.0, (0.0, 0.0), time.monotonic()
    with WriterSettings.from_environment(os.environ).open("miniapp", rank) as writer:
        for number in range(WARM_STEPS + options.steps):
            if number == LIMITED_FROM and rank == 0 and group is not None:
                group.limit(options.quota)
            if number == WARM_STEPS:
                barrier.wait()
                began_cpu_s = cpu_s(*processes) if rank == 0 else began_cpu_s
                barrier.wait()
                began_s = time.monotonic()
            work(options.loops // options.ranks)
            if number % options.every == options.every - 1:
                span_s = 0.8 * (time.monotonic() - written_s)
                _write(writer, trace, trace.next_step(), rank, span_s)
                written_s = time.monotonic()
            barrier.wait()
        took_s = time.monotonic() - began_s
        if rank == 0:
            analysis_s, others_s = np.subtract(cpu_s(*processes), began_cpu_s).tolist()
            found = {"seconds": took_s, "analysis_cpu_s": analysis_s, "others_cpu_s": others_s}
            options.result.write_text(json.dumps(found))
            if group is not None:
                group.limit(None)


def main() -> None:
    """Run all ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in ("ranks", "loops", "rows", "every", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--cores", required=True, help="one for each rank, with commas between them")
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--group", type=Path, nargs=2, help="of the analysis, and that around it")
    parser.add_argument("--quota", type=float, help="of the analysis")
    options = parser.parse_args()
    group = Group(*options.group) if options.group else None
    if group is not None:
        group.leave()
    cores = [int(core) for core in options.cores.split(",")]
    # Compiled once for all ranks.
    SyntheticTrace(100).next_step()
    processes = os.getppid(), os.getpid()
    barrier, children = Barrier(options.ranks), []
    for rank in range(options.ranks):
        child = os.fork()
        if child == 0:
            os.sched_setaffinity(0, {cores[rank]})
            _run_rank(rank, options, barrier, processes, group)
            os._exit(0)
        children.append(child)
    for child in children:
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit("a rank failed")


if __name__ == "__main__":
    main()
